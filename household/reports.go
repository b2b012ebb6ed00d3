package household

import (
	"math/rand/v2"
	"strings"
)

// form is how a simulation words its reports: what an action did, or why it failed.
type form struct {
	done    string // of opGo, opPick, opPut, opOpen, opClose, opSwitch and opSet, separated by |; the last one is for all others
	failed  string
	details manner
}

// manner is how a form words the details: what is in a room or a container.
type manner int

const (
	sentences manner = iota
	phrased
	members // of a JSON object
)

// forms are as people write reports, four of a kind. The last one of each kind is held out: no
// training has it. {why} says why an action failed, {brief} says it in fewer words.
var forms = []form{
	{}, // the report as the house words it, with the robot's name before it
	{"You are now in the {room}.|You now hold the {thing}.|You put the {thing} {at}.|You opened the {place}.|You closed the {place}.|You turned the {place} {state}.|You set the {place} to {state}.", "You failed: {why}.", sentences},
	{"{robot}, you are in the {room}.|{robot}, you have the {thing}.|{robot}, you laid down the {thing} {at}.|{robot}, you opened the {place}.|{robot}, you closed the {place}.|{robot}, the {place} is now {state}.", "{robot}, that failed: {why}.", sentences},
	{"{robot}: you have reached the {room}.|{robot}: you have picked up the {thing}.|{robot}: you have put the {thing} {at}.|{robot}: you have opened the {place}.|{robot}: you have closed the {place}.|{robot}: you have set the {place} to {state}.", "{robot}: you could not do that: {why}.", sentences},

	{"{robot} is in the {room}.|{robot} holds the {thing}.|The {thing} {is} {at}.|The {place} is open.|The {place} is closed.|The {place} is {state}.", "{robot} failed: {why}.", sentences},
	{"{robot} is now in the {room}.|{robot} has the {thing}.|{robot} has put the {thing} {at}.|{robot} has opened the {place}.|{robot} has closed the {place}.|{robot} has turned the {place} {state}.|{robot} has set the {place} to {state}.", "{robot} can't do that: {why}.", sentences},
	{"The robot {robot} is in the {room}.|The robot {robot} carries the {thing}.|The robot {robot} left the {thing} {at}.|The robot {robot} made the {place} open.|The robot {robot} shut the {place}.|The {place} is {state} now.", "The robot {robot} has a problem: {why}.", sentences},
	{"{robot} is currently in the {room}.|{robot} is holding the {thing}.|The {thing} {is} now {at}.|The {place} is now open.|The {place} is now closed.|The {place} is now {state}.", "{robot} did not succeed: {why}.", sentences},

	{"I am in the {room}.|I hold the {thing}.|I put the {thing} {at}.|I opened the {place}.|I closed the {place}.|I turned the {place} {state}.|I set the {place} to {state}.", "I failed: {why}.", sentences},
	{"I'm in the {room} now.|I have the {thing} now.|The {thing} {is} {at} now.|The {place} is open now.|The {place} is closed now.|The {place} is {state} now.", "I could not do it: {why}.", sentences},
	{"I went to the {room}.|I picked up the {thing}.|I have put the {thing} {at}.|I have opened the {place}.|I have shut the {place}.|I have switched the {place} {state}.|I have set the {place} to {state}.", "It did not work: {why}.", sentences},
	{"{robot} here, I am in the {room}.|{robot} here, I have the {thing}.|{robot} here, the {thing} {is} {at}.|{robot} here, I opened the {place}.|{robot} here, I closed the {place}.|{robot} here, the {place} is {state}.", "{robot} here, no luck: {why}.", sentences},

	{"{robot} went to the {room}.|{robot} picked up the {thing}.|{robot} put the {thing} down {at}.|{robot} opened the {place}.|{robot} closed the {place}.|{robot} switched the {place} {state}.|{robot} set the {place} to {state}.", "{robot} tried and failed: {why}.", sentences},
	{"{robot} has arrived in the {room}.|{robot} has taken the {thing}.|The {thing} was put {at}.|The {place} was opened.|The {place} was closed.|The {place} was set: {state}.", "{robot} was stopped: {why}.", sentences},
	{"Went to the {room}.|Picked up the {thing}.|Put the {thing} {at}.|Opened the {place}.|Closed the {place}.|Turned the {place} {state}.|Set the {place} to {state}.", "Did not work: {why}.", sentences},
	{"{robot} moved to the {room}.|{robot} grabbed the {thing}.|{robot} placed the {thing} {at}.|{robot} got the {place} open.|{robot} got the {place} closed.|{robot} got the {place} to {state}.", "{robot} was not able to do it: {why}.", sentences},

	{"arrived: {room}|holding: {thing}|placed: {thing}, {at}|open: {place}|closed: {place}|{place}: {state}", "failed: {why}", phrased},
	{"at {room}|has {thing}|{thing} {at}|{place} open|{place} closed|{place} {state}", "error: {brief}", phrased},
	{"{robot} at {room}|{robot} has {thing}|{robot} put {thing} {at}|{robot} opened {place}|{robot} closed {place}|{robot} set {place} {state}", "{robot} error: {why}", phrased},
	{"[{robot}] reached {room}|[{robot}] took {thing}|[{robot}] put {thing} {at}|[{robot}] opened {place}|[{robot}] closed {place}|[{robot}] {place} is {state}", "[{robot}] failure: {why}", phrased},

	{"ok", "error: {why}", phrased},
	{"done", "not done: {why}", phrased},
	{"success", "failure: {brief}", phrased},
	{"completed", "not completed: {why}", phrased},

	{"{robot}: ok", "{robot}: error: {why}", phrased},
	{"{tool}: success", "{tool}: failed: {why}", phrased},
	{"OK, {robot} is in the {room}.|OK, {robot} has the {thing}.|OK, the {thing} {is} {at}.|OK, the {place} is open.|OK, the {place} is closed.|OK, the {place} is {state}.", "FAILED, {why}.", sentences},
	{"{robot}: {tool} succeeded.", "{robot}: {tool} failed: {why}.", sentences},

	{"Done: {robot} is in the {room}.|Done: {robot} holds the {thing}.|Done: the {thing} {is} {at}.|Done: the {place} is open.|Done: the {place} is closed.|Done: the {place} is {state}.", "Not done: {why}.", sentences},
	{"Success! The robot is in the {room}.|Success! The robot has the {thing}.|Success! The {thing} {is} {at}.|Success! The {place} is open.|Success! The {place} is closed.|Success! The {place} is {state}.", "Error! The robot says: {why}.", sentences},
	{"Result: in the {room}|Result: {thing} in the hand|Result: {thing} {at}|Result: {place} open|Result: {place} closed|Result: {place} {state}", "Result: error, {why}", phrased},
	{"status: ok, {robot} in the {room}|status: ok, {robot} has the {thing}|status: ok, {thing} {at}|status: ok, {place} open|status: ok, {place} closed|status: ok, {place} {state}", "status: error, {why}", phrased},

	{`{"robot": "{robot}", "room": "{room}"}|{"robot": "{robot}", "holding": "{thing}"}|{"robot": "{robot}", "{thing}": "{at}"}|{"robot": "{robot}", "{place}": "open"}|{"robot": "{robot}", "{place}": "closed"}|{"robot": "{robot}", "{place}": "{state}"}`, `{"robot": "{robot}", "error": "{why}"}`, members},
	{`{"status": "ok"}`, `{"status": "error", "message": "{brief}"}`, members},
	{`{"success": true, "location": "{room}"}|{"success": true, "held": "{thing}"}|{"success": true, "object": "{thing}", "where": "{at}"}|{"success": true, "opened": "{place}"}|{"success": true, "closed": "{place}"}|{"success": true, "device": "{place}", "state": "{state}"}`, `{"success": false, "reason": "{why}"}`, members},
	{`{"result": "success", "robot": "{robot}", "at": "{room}"}|{"result": "success", "robot": "{robot}", "has": "{thing}"}|{"result": "success", "robot": "{robot}", "{thing}": "{at}"}|{"result": "success", "robot": "{robot}", "open": "{place}"}|{"result": "success", "robot": "{robot}", "shut": "{place}"}|{"result": "success", "robot": "{robot}", "{place}": "{state}"}`, `{"result": "failure", "robot": "{robot}", "cause": "{why}"}`, members},

	{`{"ok": true}`, `{"ok": false, "error": "{why}"}`, members},
	{"robot={robot} room={room}|robot={robot} holds={thing}|robot={robot} put={thing} {at}|robot={robot} opened={place}|robot={robot} closed={place}|robot={robot} {place}={state}", "robot={robot} error={why}", phrased},
	{`{"type": "{tool}", "robot": "{robot}", "done": true}`, `{"type": "{tool}", "robot": "{robot}", "done": false, "why": "{why}"}`, members},
	{`{"event": "arrived", "robot": "{robot}", "room": "{room}"}|{"event": "taken", "robot": "{robot}", "object": "{thing}"}|{"event": "put", "robot": "{robot}", "object": "{thing}", "place": "{at}"}|{"event": "opened", "robot": "{robot}", "object": "{place}"}|{"event": "closed", "robot": "{robot}", "object": "{place}"}|{"event": "set", "robot": "{robot}", "object": "{place}", "state": "{state}"}`, `{"event": "error", "robot": "{robot}", "detail": "{why}"}`, members},

	{"{robot} arrived.|{robot} took it.|{robot} put it down.|{robot} opened it.|{robot} closed it.|{robot} did it.", "Exception: {why}", sentences},
	{"Action completed.", "RuntimeError: {brief}", sentences},
	{"True", "False ({why})", phrased},
	{"200 OK", "409 Conflict: {brief}", phrased},
}

// kindOfForms is the number of forms of a kind.
const kindOfForms = 4

// Reports are the forms of the reports in an episode.
type Reports int

// Forms of the default model's training, and those that it does not have.
const (
	TrainedReports Reports = iota
	HeldOutReports
)

// Chances of reports, in percent.
const (
	asEver = 35 // of the first form
	mixed  = 25 // of a form for each report instead of one for all
	sparse = 40 // of reports without the details
)

// reporter words the reports of an episode. It has random numbers of its own.
type reporter struct {
	rand    *rand.Rand
	reports Reports
	plain   bool // the first form only
	form    int
	mixes   bool
	sparse  bool
}

func newReporter(r *rand.Rand, o Options) *reporter {
	p := &reporter{rand: r, reports: o.Reports, plain: o.Plain || o.Lesson}
	p.form, p.mixes, p.sparse = p.draw(), r.IntN(100) < mixed, r.IntN(100) < sparse
	return p
}

func (p *reporter) draw() int {
	kind := kindOfForms * p.rand.IntN(len(forms)/kindOfForms)
	switch {
	case p.reports == HeldOutReports:
		return kind + kindOfForms - 1
	case p.rand.IntN(100) < asEver:
		return 0
	}
	return kind + p.rand.IntN(kindOfForms-1)
}

// reword words a report in another form. What the text leaves out is not learned from it. The first
// form stays where the next decision needs what another one leaves out.
func (p *reporter) reword(n *news, k *knowledge, a action, tool string, several bool) {
	if p.plain {
		return
	}
	if p.mixes {
		p.form = p.draw()
	}
	f := forms[p.form]
	_, known := k.container[a.target]
	words := strings.Split(f.done, "|")
	text := words[min(int(a.op), len(words)-1)]
	switch {
	case a.op == opPut && !strings.Contains(text, "{at}") && !known && n.why == "":
		return
	case n.why == "" && p.sparse && a.op != opLook: // which is for the details
		n.learn, n.details, n.text = n.learn[:1], nil, a.robot+": "+n.core
	}
	if p.form == 0 {
		return
	}
	switch {
	case n.why != "":
		text = f.failed
	case a.op == opLook:
		text = words[0]
		if !strings.Contains(text, "{room}") {
			text += map[manner]string{sentences: " {robot} is in the {room}.", phrased: ", in the {room}"}[f.details]
		}
		if f.details == members && !strings.Contains(text, "{room}") {
			text = strings.TrimSuffix(text, "}") + `, "room": "{room}"}`
		}
	}
	if several && !strings.Contains(text, "{robot}") { // whose report it is
		text = "{robot}: " + text
	}
	n.text = slots{"{robot}", a.robot, "{room}", n.room, "{thing}", n.thing, "{is}", is(n.thing), "{at}", n.at, "{place}", a.target,
		"{state}", n.state, "{tool}", tool, "{why}", n.why, "{brief}", brief(n.why)}.fill(text)
	n.text = f.details.add(n.text, n.details)
}

// join makes one text of the reports of several robots.
func (p *reporter) join(reports []string) string {
	switch f := forms[p.form]; {
	case p.plain, p.form == 0, p.mixes, len(reports) < 2, f.details == phrased:
		return strings.Join(reports, "\n")
	case f.details == sentences:
		return strings.Join(reports, " ")
	case strings.HasPrefix(reports[0], "{") && strings.HasPrefix(reports[1], "{"):
		return "[" + strings.Join(reports, ", ") + "]"
	}
	return strings.Join(reports, "\n")
}

// brief says "box locked" for "the box is locked".
func brief(why string) string {
	if !strings.HasPrefix(why, "the ") || strings.Contains(why, ". ") {
		return why
	}
	return strings.NewReplacer("the ", "", " is ", " ", " are ", " ").Replace(why)
}

// add adds the sentences of details to a report.
func (m manner) add(text string, details []string) string {
	for _, d := range details {
		short := strings.ToLower(d[:1]) + strings.TrimSuffix(d[1:], ".")
		switch m {
		case sentences:
			text += " " + d
		case phrased:
			text += "; " + short
		default:
			name, list, isList := strings.Cut(short, ": ")
			value := `["` + strings.ReplaceAll(list, ", ", `", "`) + `"]`
			if list == "nothing" {
				value = "[]"
			}
			if !isList { // the box is closed, the heater is at 20 degrees
				name, list, _ = strings.Cut(strings.TrimPrefix(short, "the "), " is ")
				value = `"` + strings.TrimPrefix(list, "at ") + `"`
			}
			text = strings.TrimSuffix(text, "}") + `, "` + name + `": ` + value + "}"
		}
	}
	return text
}

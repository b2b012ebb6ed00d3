package household

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// opening is the beginning of an instruction with its possible endings.
type opening struct {
	text    string
	endings []string
}

var (
	statement = []string{".", "", "!", ", please.", ", thanks.", " now."}
	question  = []string{"?", ", please?", " for me?", ""}

	openings = []opening{
		{"", statement}, {"", statement}, {"please ", statement}, {"now ", statement}, {"OK, ", statement}, {"hey, ", statement},
		{"I want you to ", statement}, {"I'd like you to ", statement}, {"you should ", statement}, {"next, ", statement},
		{"could you ", question}, {"can you ", question}, {"would you ", question}, {"would you please ", question},
	}
	// named are openings that name the robot inside.
	named = []opening{
		{"let {robot} ", statement}, {"have {robot} ", statement}, {"{robot} should ", statement}, {"{robot} has to ", statement},
		{"can {robot} ", question}, {"could {robot} ", question}, {"I want {robot} to ", statement}, {"please let {robot} ", statement},
	}
	// addresses put the robot before a whole sentence.
	addresses = []string{"{robot}, %s", "{robot}: %s", "hey {robot}, %s"}

	// connectives stand between tasks of different robots, sequences between
	// tasks of one.
	connectives = []string{"; ", " and ", ", and ", " while "}
	sequences   = []string{", then ", " and then ", ", after that "}

	// phrases of what is wanted, with the verb in its base form.
	phrases = [...][]string{
		wantGo: {"go to the {room}", "go into the {room}", "move to the {room}", "drive to the {room}", "come to the {room}",
			"enter the {room}", "head for the {room}", "be in the {room}", "go over to the {room}"},
		wantBring: {"bring {thing}{from} to {place}", "put {thing}{from} {at}", "place {thing}{from} {at}", "move {thing}{from} to {place}",
			"carry {thing}{from} to {place}", "take {thing}{from} to {place}", "get {thing}{from} and put it {at}",
			"fetch {thing}{from} and leave it {at}", "deliver {thing}{from} to {place}", "put {thing}{from} away {at}", "transport {thing}{from} to {place}"},
		wantTake: {"pick up {thing}{from}", "take {thing}{from}", "grab {thing}{from}", "get {thing}{from}", "fetch {thing}{from}",
			"take {thing}{from} in the hand", "get hold of {thing}{from}", "pick {thing}{from} up"},
		wantOpen:   {"open {place}", "open up {place}", "get {place} open", "make {place} open"},
		wantClose:  {"close {place}", "shut {place}", "get {place} closed", "make {place} shut"},
		wantSwitch: {"switch {on} {place}", "turn {on} {place}", "switch {place} {on}", "turn {place} {on}", "get {place} {on}", "power {place} {on}"},
		wantSet: {"set {place} to {value}", "put {place} at {value}", "adjust {place} to {value}", "turn {place} to {value}",
			"bring {place} to {value}", "change {place} to {value}"},
		wantCheck: {"check what is {at}", "look what is {at}", "find out what is {at}", "see what is {at}", "tell me what is {at}",
			"list what is {at}"},
		askThing: {"where {is} {thing}?", "where can I find {thing}?", "in which place {is} {thing}?", "what do you know about where {thing} {is}?"},
		askRobot: {"where is {robot}?", "in which room is {robot}?", "which room is {robot} in?", "where did {robot} go?"},
		askHeld:  {"what does {robot} hold?", "what is {robot} holding?", "what has {robot} in the hand?", "which thing does {robot} carry?"},
		askRoom:  {"who is in the {room}?", "which robot is in the {room}?", "is there a robot in the {room}?", "which robots are in the {room}?"},
		askState: {"how is {place} set?", "what is the state of {place}?", "how does {place} stand?", "tell me the state of {place}."},
		told:     {"{thing} {is} {spot}.", "you find {thing} {spot}.", "I left {thing} {spot}.", "I have put {thing} {spot}.", "{thing} now {is} {spot}."},
	}
	questionOpenings = []string{"", "", "please tell me: ", "hey, ", "one question: ", "just asking: ", "say, "}
	toldOpenings     = []string{"", "", "remember: ", "by the way, ", "for later: ", "just so you know: ", "good to know: "}

	answerOpenings = []string{"", "", "well, ", "hm, ", "oh, ", "sorry, ", "ah, ", "let me think: "}

	placeAnswers  = []string{"it is in the {room}.", "in the {room}.", "{place} is in the {room}.", "you find it in the {room}", "in the {room}, I think."}
	thingAnswers  = []string{"{thing} {is} {spot}.", "{spot}.", "look {spot}.", "you find {thing} {spot}", "{spot}, I think."}
	nobodyAnswers = []string{"I don't know.", "no idea.", "I don't know either.", "I can't say.", "nobody knows.", "I have no idea", "I forgot."}
	whichAnswers  = []string{"{thing}.", "{thing}, please.", "I mean {thing}.", "take {thing}", "I meant {thing}."}
)

// speaker words what people say, in the wordings of its split.
type speaker struct {
	rand  *rand.Rand
	split Split
}

// choose draws combinations until one belongs to the split.
func (s *speaker) choose(draw func() []string) []string {
	for {
		if parts := draw(); splitOf(strings.Join(parts, "|")) == s.split {
			return parts
		}
	}
}

// slots are the values for the gaps of a wording.
type slots []string

func (s slots) fill(text string) string { return strings.NewReplacer(s...).Replace(text) }

// slots of a goal. spoken is the name that the person uses for the thing, place
// what it calls the place, with or without the room.
func (h *house) slots(g *goal, spoken, from string, room bool) slots {
	place, at := the(g.target), "on "+the(g.target)
	if p := h.place(g.target); p != nil {
		at = preposition(p.container) + " " + the(p.name)
		if room {
			place, at = place+" in the "+p.room, at+" in the "+p.room
		}
	} else if d := h.device(g.target); d != nil && room {
		place += " in the " + d.room
	}
	on := "off"
	if g.on {
		on = "on"
	}
	return slots{"{robot}", g.robot, "{thing}", the(spoken), "{is}", is(spoken), "{from}", from, "{place}", place, "{at}", at,
		"{room}", g.target, "{on}", on, "{value}", valueText(g)}
}

func valueText(g *goal) string { return amount(g.value, g.unit) }

// instruct words one goal. It names the robot unless the agent has to infer it.
func (s *speaker) instruct(g *goal, fill slots, name bool) string {
	parts := s.choose(func() []string {
		phrase := oneOf(s.rand, phrases[g.kind])
		if name && s.rand.IntN(2) == 0 {
			o := oneOf(s.rand, named)
			return []string{"%s", o.text, phrase, oneOf(s.rand, o.endings)}
		}
		o := oneOf(s.rand, openings)
		address := "%s"
		if name {
			address = oneOf(s.rand, addresses)
		}
		return []string{address, o.text, phrase, oneOf(s.rand, o.endings)}
	})
	text := fill.fill(parts[1] + parts[2] + parts[3])
	switch {
	case parts[0] != "%s":
	case strings.HasPrefix(parts[1], "{robot}"):
		return text
	default:
		return upper(text)
	}
	return fmt.Sprintf(fill.fill(parts[0]), text)
}

// several words goals of several robots, or of one robot, one after the other.
func (s *speaker) several(goals []*goal, fills []slots) string {
	sameRobot := goals[0].robot == goals[1].robot
	parts := s.choose(func() []string {
		key := []string{oneOf(s.rand, connectives)}
		if sameRobot {
			key = []string{oneOf(s.rand, sequences)}
		}
		key = append(key, oneOf(s.rand, []string{"{robot}, ", "{robot}: ", "{robot} should "}), oneOf(s.rand, statement))
		for _, g := range goals {
			key = append(key, oneOf(s.rand, phrases[g.kind]))
		}
		return key
	})
	connective, address, ending := parts[0], parts[1], parts[2]
	var list []string
	for i, phrase := range parts[3:] {
		if i == 0 || !sameRobot {
			phrase = address + phrase
		}
		list = append(list, fills[i].fill(phrase))
	}
	return strings.Join(list, connective) + ending
}

// say words anything else: one of the openings, then one of the texts.
func (s *speaker) say(starts, texts []string, fill slots) string {
	parts := s.choose(func() []string { return []string{oneOf(s.rand, starts), oneOf(s.rand, texts)} })
	return upper(fill.fill(parts[0] + parts[1]))
}

package household

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Split is the purpose of an episode. Splits share no names of things and no wordings of
// people.
type Split int

// The splits.
const (
	Train Split = iota
	Eval
)

// evalShare is the share of generated words and wordings for Eval: one in so many.
const evalShare = 10

// splitOf is the split of a generated word or wording, by a hash of its text.
func splitOf(text string) Split {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // it never fails
	if h.Sum64()%evalShare == 0 {
		return Eval
	}
	return Train
}

// pool is a list of words of each split.
type pool [2][]string

func words(train, eval string) pool { return pool{strings.Fields(train), strings.Fields(eval)} }

var (
	roomWords = words(
		"kitchen bedroom office hall bathroom garage cellar lounge study nursery pantry workshop laundry library corridor",
		"attic studio lobby playroom conservatory")
	surfaceWords = words(
		"table shelf desk bench counter sofa bed windowsill dresser stool mat rack armchair mantelpiece sideboard",
		"ledge pedestal worktop trolley")
	containerWords = words(
		"fridge drawer cupboard box wardrobe oven chest cabinet basket bin locker crate dishwasher suitcase",
		"freezer trunk safe hamper")
	switchWords = words(
		"lamp radio fan kettle television projector toaster humidifier printer vacuum spotlight computer",
		"chandelier stereo purifier coffeemaker")
	degreeWords  = words("heater thermostat boiler radiator grill", "stove incubator")
	percentWords = words("dimmer blind shutter loudspeaker curtain", "skylight awning")
	adjectives   = words(
		"red blue green white black yellow brown small big old new round pink dark light tall short long thin thick clean dirty wet dry heavy "+
			"empty full square flat wooden golden silver plastic broken striped dotted shiny soft",
		"purple orange tiny grey narrow leather rusty")
	nounWords = words(
		"cup book ball plate bottle glass pen phone hat spoon bowl towel shirt apple candle vase fork jar brush plant pillow "+
			"hammer torch watch wallet letter magazine pan jacket shoe tin lemon",
		"mug notebook knife bucket ribbon kite pear")
	// bareWords name things that are unique in a house.
	bareWords  = words("keys scissors umbrella newspaper laptop medicine milk bread remote glasses slippers", "headphones passport camera butter")
	robotWords = words(
		"rover arm scout butler atlas robin dot helper max luna titan nova bolt rosie spot pepper gizmo otto",
		"walker juno marvin echo ziggy")
)

// Percentages of invented names, which teach the model to copy unknown names, and of
// those among them that look like identifiers.
const (
	invented  = 70
	qualities = 50 // of the adjectives
	compounds = 8  // two words with an underscore
	numbered  = 10 // a digit at the end
	plurals   = 25 // of the things that have no adjective

	shortest = 4 // letters of a made-up word
)

// The parts of invented words. Repeated entries are more frequent.
var (
	onsets = strings.Fields("b d f g h j k l m n p r s t v w z b d f g k l m n p r s t bl br ch cl cr dr fl fr gl gr ph pl pr qu sc sh sk sl sp st sw th tr tw wh str")
	vowels = strings.Fields("a e i o u a e i o u a e i o u y ai ea ee ie oa oo ou")
	codas  = strings.Fields("b d g k l m n p r t x ck ct ft ld lk lt mb mp nd ng nk nt pt rd rk rm rn rt sh st th")
	ends   = strings.Fields("er or ow le al el en et ing ory ment tion age ure ish ard ock ette")
)

// invent invents a word of the split.
func invent(r *rand.Rand, s Split) string {
	for {
		w := inventWord(r)
		if len(w) < shortest {
			continue // it could be a word of English
		}
		switch n := r.IntN(100); {
		case n < compounds:
			w += "_" + inventWord(r)
		case n < compounds+numbered:
			w += strconv.Itoa(1 + r.IntN(9))
		}
		if splitOf(w) == s {
			return w
		}
	}
}

// inventBare invents a unique thing. Without invented plurals a model memorizes which
// words are plural.
func inventBare(r *rand.Rand, s Split) string {
	for {
		w := invent(r, s)
		if last := w[len(w)-1]; r.IntN(100) < plurals && last >= 'a' {
			w += "s"
		}
		if splitOf(w) == s {
			return w
		}
	}
}

func inventWord(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(2) {
		b.WriteString(oneOf(r, onsets))
		b.WriteString(oneOf(r, vowels))
	}
	switch r.IntN(3) {
	case 0:
		b.WriteString(oneOf(r, codas))
	case 1:
		b.WriteString(oneOf(r, onsets) + oneOf(r, ends))
	}
	return b.String()
}

// namer draws names that are different from each other.
type namer struct {
	rand  *rand.Rand
	split Split
	plain bool
	used  []string
}

// plainTries bounds the search for a plain name. A large house may have more things than
// there are words.
const plainTries = 100

func (n *namer) draw(p pool) string { return n.drawOr(p, invent) }

// drawOr draws a word of the pool or an invented one.
func (n *namer) drawOr(p pool, makeUp func(*rand.Rand, Split) string) string {
	for tries := 0; ; tries++ {
		w := oneOf(n.rand, p[n.split])
		if n.rand.IntN(100) < invented && (!n.plain || tries > plainTries) {
			w = makeUp(n.rand, n.split)
		}
		if !slices.Contains(n.used, w) {
			n.used = append(n.used, w)
			return w
		}
	}
}

// drawThings draws the names of things. Twins share a noun.
func (n *namer) drawThings(count int) []string {
	var names []string
	for len(names) < count {
		if n.rand.IntN(4) == 0 {
			names = append(names, n.drawOr(bareWords, inventBare))
			continue
		}
		noun := n.draw(nounWords)
		first := n.adjective()
		names = append(names, first+" "+noun)
		if n.rand.IntN(2) == 0 && len(names) < count {
			second := n.adjective()
			for second == first {
				second = n.adjective()
			}
			names = append(names, second+" "+noun)
		}
	}
	return names
}

// adjective draws an adjective that distinguishes twins. Other things may have it too.
// With only a dozen adjectives a model takes any other word for a whole name.
func (n *namer) adjective() string {
	if n.rand.IntN(100) < qualities && !n.plain {
		return invent(n.rand, n.split)
	}
	return oneOf(n.rand, adjectives[n.split])
}

func oneOf[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// the, is and upper are the grammar of sentences.
func the(name string) string { return "the " + name }

func is(name string) string {
	if strings.HasSuffix(name, "s") && !strings.HasSuffix(name, "ss") {
		return "are"
	}
	return "is"
}

// upper capitalizes a sentence, except for names, which have to be copied.
func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// join lists names: a, b and c, with the given last conjunction.
func join(names []string, last string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " " + last + " " + names[len(names)-1]
}

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
		"{room}", g.target, "{on}", on, "{value}", amount(g.value, g.unit)}
}

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

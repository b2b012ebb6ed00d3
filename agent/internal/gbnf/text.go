package gbnf

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Text describes free text by what it must not contain. It becomes an automaton that
// finds all strings at once (Aho-Corasick), with a rule for each state.
type Text struct {
	Forbidden []string // strings that it does not contain
	// Until, if not "", ends the text and is part of it. Where a forbidden string ends too, Until has precedence.
	Until    string
	NonBlank bool   // the first character is not white space (unicode.IsSpace)
	NotFirst string // further ASCII characters that are not the first. Only with NonBlank; none may begin a string.
	// NotBegin has texts with which it does not begin. Only with NonBlank; strings must not share characters with it.
	NotBegin *Starts
}

// state is a node of the trie of all strings.
type state struct {
	next      map[byte]int
	fail      int
	forbidden bool
	until     bool
}

// AddText adds the rules of a text under name. The strings must be ASCII.
func (g *Grammar) AddText(name string, t Text) {
	states, alphabet := t.automaton()
	ref := func(i int) string {
		if i == 0 {
			return name + "-t"
		}
		return fmt.Sprintf("%s-t%d", name, i)
	}
	first := "" // what leads from the start to other states
	for i := range states {
		if states[i].forbidden || states[i].until {
			continue
		}
		excluded, moves := t.moves(states, alphabet, i, ref)
		free := classOf("^", string(excluded)) + " " + ref(0)
		body := strings.Join(append(slices.Clone(moves), free), " | ")
		if t.Until == "" {
			body = "| " + body // text may end in every state
		}
		g.Add(ref(i), body)
		if i == 0 {
			if t.NonBlank {
				free = NonBlank(string(excluded)+t.NotFirst) + " " + ref(0)
				moves = slices.DeleteFunc(slices.Clone(moves), func(m string) bool { return strings.HasPrefix(m, `[\x0A]`) })
			}
			if t.NotBegin.empty() {
				first = strings.Join(append(slices.Clone(moves), free), " | ")
			} else {
				first = strings.Join(t.NotBegin.add(g, name, string(excluded), moves, ref(0), t.NotFirst), " | ")
			}
		}
	}
	if !t.NonBlank {
		first = ref(0)
	}
	g.Add(name, first)
}

// moves returns the transitions of state i that do not lead to the start, and their first characters.
func (t Text) moves(states []state, alphabet []byte, i int, ref func(int) string) (excluded []byte, moves []string) {
	byTarget := map[int][]byte{}
	var targets []int
	for _, c := range alphabet {
		target := step(states, i, c)
		if target == 0 {
			continue
		}
		excluded = append(excluded, c)
		if len(byTarget[target]) == 0 {
			targets = append(targets, target)
		}
		byTarget[target] = append(byTarget[target], c)
	}
	for _, target := range targets {
		switch {
		case states[target].until:
			moves = append(moves, classOf("", string(byTarget[target])))
		case states[target].forbidden:
		default:
			moves = append(moves, classOf("", string(byTarget[target]))+" "+ref(target))
		}
	}
	return excluded, moves
}

func (t Text) automaton() (states []state, alphabet []byte) {
	states = []state{{next: map[byte]int{}}}
	add := func(s string) int {
		at := 0
		for _, c := range []byte(s) {
			if !slices.Contains(alphabet, c) {
				alphabet = append(alphabet, c)
			}
			to, ok := states[at].next[c]
			if !ok {
				to = len(states)
				states = append(states, state{next: map[byte]int{}})
				states[at].next[c] = to
			}
			at = to
		}
		return at
	}
	for _, s := range t.Forbidden {
		states[add(s)].forbidden = true
	}
	if t.Until != "" {
		states[add(t.Until)].until = true
	}
	slices.Sort(alphabet)

	// Breadth first: a state's failure is known before its children's failures.
	queue := []int{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, c := range alphabet {
			to, ok := states[at].next[c]
			if !ok {
				continue
			}
			if at != 0 {
				states[to].fail = step(states, states[at].fail, c)
			}
			back := states[states[to].fail]
			states[to].until = states[to].until || back.until
			states[to].forbidden = states[to].forbidden || back.forbidden
			queue = append(queue, to)
		}
	}
	return states, alphabet
}

func step(states []state, i int, c byte) int {
	for {
		if to, ok := states[i].next[c]; ok {
			return to
		}
		if i == 0 {
			return 0
		}
		i = states[i].fail
	}
}

// spaces are the characters of unicode.IsSpace.
var spaces = func() (list []rune) {
	for _, r := range unicode.White_Space.R16 {
		for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
			list = append(list, c)
		}
	}
	return list
}()

// NonBlank returns the class of characters that are neither white space nor in others.
func NonBlank(others string) string { return classOf("^", string(spaces)+others) }

// classOf returns the class of these characters; with the prefix ^, of all others.
func classOf(prefix, chars string) string {
	if chars == "" {
		return `[^\x00]` // any character: no text we make or read has a NUL
	}
	var b strings.Builder
	b.WriteString("[" + prefix)
	for _, r := range chars {
		switch {
		case r < 0x20, strings.ContainsRune(`\]^-"`, r):
			fmt.Fprintf(&b, `\x%02X`, r)
		case r < 0x80, r > 0xffff:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	return b.String() + "]"
}

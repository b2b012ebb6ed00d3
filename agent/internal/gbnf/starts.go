package gbnf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Starts is a set of beginnings of texts, as a trie. If one is the beginning of another, only the shorter counts.
type Starts struct{ nodes []start }

// start is a node of the trie.
type start struct {
	next  map[rune]int
	loop  string // of these characters any number may follow, but those in next
	to    int    // the node after such a character
	only  string // if not "", no other characters may follow, but those in loop
	whole bool   // a text of the set ends here
}

// Placeholders in a text of the set, each for any number of characters.
const (
	Gap  = "\x00" // white space
	Word = "\x01" // ASCII letters, digits, _+.- and spaces, as in the language of a fence
)

var loops = map[rune]string{
	0: " \n\t\r",
	1: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.- ",
}

// maxStarts bounds the nodes, each a rule of a grammar.
const maxStarts = 4000

// Add adds a text, which may contain [Gap] and [Word]. It does nothing if the trie would exceed maxStarts nodes.
func (s *Starts) Add(text string) {
	if len(s.nodes)+len(text) > maxStarts {
		return
	}
	if s.nodes == nil {
		s.nodes = []start{{next: map[rune]int{}}}
	}
	at := 0
	for _, r := range text {
		if loop := loops[r]; loop != "" {
			s.nodes[at].loop, s.nodes[at].to = loop, at
			continue
		}
		to, ok := s.nodes[at].next[r]
		if !ok {
			to = len(s.nodes)
			s.nodes = append(s.nodes, start{next: map[rune]int{}})
			s.nodes[at].next[r] = to
		}
		at = to
	}
	s.nodes[at].whole = true
}

// After narrows what follows the text before, word and a new line, with white space: only[0], then a character of only[1],
// and so on. Each begins with a character that the set has there after any [Word].
func (s *Starts) After(before, word string, only ...string) {
	at := 0
	for _, r := range before {
		at = s.nodes[at].next[r]
	}
	words, same := at, s.nodes[at].next['\n'] // after any word; after the new line and what was narrowed
	grow := func(r rune, n start) {
		s.nodes[at].next[r] = len(s.nodes)
		at = len(s.nodes)
		s.nodes = append(s.nodes, n)
	}
	for _, r := range word {
		grow(r, start{next: map[rune]int{'\n': same}, loop: s.nodes[words].loop, to: words})
	}
	r := '\n'
	for _, chars := range only {
		first := rune(chars[0])
		following := s.nodes[same].next[first]
		grow(r, start{next: map[rune]int{first: following}, loop: loops[0], to: len(s.nodes), only: chars})
		same, r = following, first
	}
}

// Within reports whether a text begins with a text of the set, or may still do so when it continues.
func (s *Starts) Within(text string) bool {
	if s.empty() {
		return false
	}
	at := 0
	for _, r := range text {
		to, ok := s.nodes[at].next[r]
		switch {
		case ok:
			at = to
		case !strings.ContainsRune(s.nodes[at].loop, r):
			return false
		default:
			at = s.nodes[at].to
		}
		if s.nodes[at].whole {
			return true
		}
	}
	return true
}

// add adds the rules of texts that do not begin with a text of the set, and returns the alternatives of their root.
// After a character that leaves the trie, the text continues with one of moves if the character is in special, else
// with rest. The first character is not white space and not in first.
func (s *Starts) add(g *Grammar, name, special string, moves []string, rest, first string) []string {
	ref := func(i int) string { return fmt.Sprintf("%s-s%d", name, i) }
	for i, n := range slices.Backward(s.nodes) {
		if n.whole {
			continue
		}
		var body []string
		excluded := special + n.loop
		next := slices.Sorted(maps.Keys(n.next))
		if n.loop != "" {
			looped := strings.Map(func(r rune) rune {
				if slices.Contains(next, r) {
					return -1
				}
				return r
			}, n.loop)
			body = append(body, classOf("", looped)+" "+ref(n.to))
		}
		for _, r := range next {
			excluded += string(r)
			if to := n.next[r]; !s.nodes[to].whole {
				body = append(body, classOf("", string(r))+" "+ref(to))
			}
		}
		if n.only != "" {
			if free := n.only[1:]; free != "" {
				body = append(body, classOf("", free)+" "+rest)
			}
			g.Add(ref(i), strings.Join(body, " | "))
			continue
		}
		body = append(body, moves...)
		if i == 0 {
			return append(body, NonBlank(excluded+first)+" "+rest)
		}
		g.Add(ref(i), "| "+strings.Join(append(body, classOf("^", excluded)+" "+rest), " | "))
	}
	return nil
}

func (s *Starts) empty() bool { return s == nil || s.nodes == nil }

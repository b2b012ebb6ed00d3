package format

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"agentd/protocol"
)

// splitter finds the texts of special tokens.
type splitter struct {
	byFirst [256][]string // longest first
	cache   sync.Map      // results of markup: string to []Segment
}

func newSplitter(specials []string) *splitter {
	s := new(splitter)
	for _, text := range specials {
		if text != "" && !slices.Contains(s.byFirst[text[0]], text) {
			s.byFirst[text[0]] = append(s.byFirst[text[0]], text)
		}
	}
	for _, list := range s.byFirst {
		slices.SortFunc(list, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}
	return s
}

// at returns the longest text of a special token with which text[i:] begins, or "".
func (s *splitter) at(text string, i int) string {
	for _, special := range s.byFirst[text[i]] {
		if strings.HasPrefix(text[i:], special) {
			return special
		}
	}
	return ""
}

func (s *splitter) split(text string) []Segment {
	var segments []Segment
	start := 0
	for i := 0; i < len(text); {
		special := s.at(text, i)
		if special == "" {
			i++
			continue
		}
		if start < i {
			segments = append(segments, Segment{Text: text[start:i]})
		}
		segments = append(segments, Segment{Text: special, Special: true})
		i += len(special)
		start = i
	}
	if start < len(text) {
		segments = append(segments, Segment{Text: text[start:]})
	}
	return segments
}

// markup is split with a cache, for the fixed texts of a format.
func (s *splitter) markup(text string) []Segment {
	if segments, ok := s.cache.Load(text); ok {
		return segments.([]Segment)
	}
	segments := s.split(text)
	s.cache.Store(text, segments)
	return segments
}

// builder builds a prompt from the format's fixed texts, which have special tokens, and from other texts, in which
// the same characters are plain text.
type builder struct {
	split   *splitter
	text    []byte
	special [][2]int // spans of special tokens
	turn    int      // end of the model's last turn
}

func newBuilder(split *splitter, c *Catalog, messages []message) *builder {
	size := len(c.text) + 4096
	for i := range messages {
		size += len(messages[i].content) + 96 // what is around it
	}
	return &builder{split: split, text: make([]byte, 0, size)}
}

// markup appends a fixed text of the format.
func (b *builder) markup(text string) {
	for _, p := range b.split.markup(text) {
		if p.Special {
			b.special = append(b.special, [2]int{len(b.text), len(b.text) + len(p.Text)})
		}
		b.text = append(b.text, p.Text...)
	}
}

func (b *builder) block(open, text, end string) {
	b.markup(open)
	b.plain(text)
	b.markup(end)
}

func (b *builder) endTurn(end string) {
	b.turn = len(b.text)
	b.markup(end)
}

// plain appends a text without special tokens.
func (b *builder) plain(text string) { b.text = append(b.text, text...) }

// prompt returns the result. Its segments share the text's memory.
func (b *builder) prompt(messages, tools protocol.Raw) *Prompt {
	text := string(b.text)
	segments := make([]Segment, 0, 2*len(b.special)+1)
	at := 0
	for _, span := range b.special {
		if at < span[0] {
			segments = append(segments, Segment{Text: text[at:span[0]]})
		}
		segments = append(segments, Segment{Text: text[span[0]:span[1]], Special: true})
		at = span[1]
	}
	if at < len(text) {
		segments = append(segments, Segment{Text: text[at:]})
	}
	return &Prompt{Text: text, Segments: segments, Messages: messages, Tools: tools, LastTurn: b.turn}
}

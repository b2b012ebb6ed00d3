package agent_test

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"agentd/agent/format"
	"agentd/scheduler/generation"
)

// words is a vocabulary with a token for each word. It learns words when it sees them, and gives
// back the text of tokens.
type words struct {
	failOn string // a text whose tokenization fails with err
	err    error
}

// known has the segments of all tokens of all tests.
var known struct {
	sync.Mutex
	segments []format.Segment
	tokens   map[format.Segment]generation.Token
}

// tokenOf returns the token of a segment.
func tokenOf(segment format.Segment) generation.Token {
	known.Lock()
	defer known.Unlock()
	token, ok := known.tokens[segment]
	if !ok {
		if known.tokens == nil {
			known.tokens = map[format.Segment]generation.Token{}
		}
		token = generation.Token(len(known.segments))
		known.segments = append(known.segments, segment)
		known.tokens[segment] = token
	}
	return token
}

var word = regexp.MustCompile(`\s*\S+|\s+`)

func (w *words) Tokenize(text string, _, _ bool) ([]generation.Token, error) {
	if w.err != nil && strings.Contains(text, w.failOn) {
		return nil, w.err
	}
	var tokens []generation.Token
	for _, part := range word.FindAllString(text, -1) {
		tokens = append(tokens, tokenOf(format.Segment{Text: part}))
	}
	return tokens, nil
}

func (w *words) Find(piece string) (generation.Token, bool) {
	return tokenOf(format.Segment{Text: piece, Special: true}), slices.Contains(new(fakeKit).SpecialTokens(), piece)
}

func (w *words) AddBOS() bool          { return false }
func (w *words) BOS() generation.Token { return -1 }
func (w *words) LongestPiece() int     { return 1 << 20 }
func (w *words) Size() int             { return 0 } // it grows

func (w *words) Detokenize(ids []generation.Token, _ bool) string { return textOf(ids) }

// segmentsOf returns the segments of a prompt, with adjacent plain ones joined.
func segmentsOf(prompt []generation.Token) (segments []format.Segment) {
	known.Lock()
	defer known.Unlock()
	for _, token := range prompt {
		segment := known.segments[token]
		if last := len(segments) - 1; last >= 0 && !segment.Special && !segments[last].Special {
			segments[last].Text += segment.Text
			continue
		}
		segments = append(segments, segment)
	}
	return segments
}

// textOf returns the text of a prompt.
func textOf(prompt []generation.Token) string {
	var b strings.Builder
	for _, segment := range segmentsOf(prompt) {
		b.WriteString(segment.Text)
	}
	return b.String()
}

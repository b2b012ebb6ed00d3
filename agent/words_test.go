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

// known has the pieces of all tokens of all tests.
var known struct {
	sync.Mutex
	pieces []format.Piece
	tokens map[format.Piece]generation.Token
}

// tokenOf returns the token of a piece.
func tokenOf(piece format.Piece) generation.Token {
	known.Lock()
	defer known.Unlock()
	token, ok := known.tokens[piece]
	if !ok {
		if known.tokens == nil {
			known.tokens = map[format.Piece]generation.Token{}
		}
		token = generation.Token(len(known.pieces))
		known.pieces = append(known.pieces, piece)
		known.tokens[piece] = token
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
		tokens = append(tokens, tokenOf(format.Piece{Text: part}))
	}
	return tokens, nil
}

func (w *words) Find(piece string) (generation.Token, bool) {
	return tokenOf(format.Piece{Text: piece, Special: true}), slices.Contains(new(fakeKit).SpecialTokens(), piece)
}

func (w *words) AddBOS() bool          { return false }
func (w *words) BOS() generation.Token { return -1 }
func (w *words) LongestPiece() int     { return 1 << 20 }

// piecesOf returns the pieces of a prompt, with adjacent plain ones joined.
func piecesOf(prompt []generation.Token) (pieces []format.Piece) {
	known.Lock()
	defer known.Unlock()
	for _, token := range prompt {
		piece := known.pieces[token]
		if last := len(pieces) - 1; last >= 0 && !piece.Special && !pieces[last].Special {
			pieces[last].Text += piece.Text
			continue
		}
		pieces = append(pieces, piece)
	}
	return pieces
}

// textOf returns the text of a prompt.
func textOf(prompt []generation.Token) string {
	var b strings.Builder
	for _, piece := range piecesOf(prompt) {
		b.WriteString(piece.Text)
	}
	return b.String()
}

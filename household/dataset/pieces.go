package dataset

import (
	"encoding/json"
	"strings"

	"agentd/agent/format"
)

// Piece is a part of a text that is tokenized by itself.
type Piece format.Segment

// MarshalJSON writes ["s", text] for a special token, ["t", text] for all else.
func (p Piece) MarshalJSON() ([]byte, error) {
	kind := "t"
	if p.Special {
		kind = "s"
	}
	return json.Marshal([2]string{kind, p.Text})
}

// Segment is a part of a conversation: input of the model or, with Loss, its output up to
// the token that ends its turn.
type Segment struct {
	Pieces []Piece `json:"pieces"`
	Loss   bool    `json:"loss"`
}

// Group is a line of the data set: conversations with a shared prefix.
type Group struct {
	Prefix   []Piece     `json:"prefix"`
	Episodes [][]Segment `json:"episodes"`
}

// assistant follows turnStart in the model's turns.
const assistant = "assistant\n"

// transcript is the last prompt of a conversation, which holds all earlier turns, with its
// answer and end token.
func transcript(last Turn) []Piece {
	var pieces []Piece
	add := func(p Piece) {
		if n := len(pieces); n > 0 && !p.Special && !pieces[n-1].Special {
			pieces[n-1].Text += p.Text
			return
		}
		pieces = append(pieces, p)
	}
	for _, p := range last.Prompt {
		add(Piece(p))
	}
	rest := last.Answer
	for rest != "" {
		at, mark := len(rest), ""
		for _, m := range []string{callOpen, callClose} {
			if i := strings.Index(rest, m); i >= 0 && i < at {
				at, mark = i, m
			}
		}
		if at > 0 {
			add(Piece{Text: rest[:at]})
		}
		if mark != "" {
			add(Piece{Text: mark, Special: true})
		}
		rest = rest[at+len(mark):]
	}
	add(Piece{Text: turnEnd, Special: true})
	return pieces
}

// segments splits a transcript into input and output of the model.
func segments(pieces []Piece, turns []Turn) []Segment {
	var list []Segment
	add := func(p Piece, loss bool) {
		if n := len(list); n == 0 || list[n-1].Loss != loss {
			list = append(list, Segment{Loss: loss})
		}
		s := &list[len(list)-1]
		s.Pieces = append(s.Pieces, p)
	}
	writes, turn := false, 0
	for i, p := range pieces {
		opens := !p.Special && i > 0 && pieces[i-1] == Piece{Text: turnStart, Special: true} && strings.HasPrefix(p.Text, assistant)
		if opens {
			add(Piece{Text: assistant}, false)
			writes = !turns[turn].Wrong
			turn++
			if text := p.Text[len(assistant):]; text != "" {
				add(Piece{Text: text}, writes)
			}
			continue
		}
		add(p, writes)
		if p == (Piece{Text: turnEnd, Special: true}) {
			writes = false
		}
	}
	return list
}

// prefixEnd is the number of pieces in the shared prefix of a group: the system message
// and the opening of the first turn.
func prefixEnd(pieces []Piece) int {
	n := 0
	for i, p := range pieces {
		if p == (Piece{Text: turnStart, Special: true}) {
			if n++; n == 2 {
				return i + 1
			}
		}
	}
	return 0
}

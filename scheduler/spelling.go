package scheduler

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"agentd/llama"
	"agentd/scheduler/generation"
	"agentd/scheduler/search"
)

// The answers of a generation.Params.Choice are a tree of completions, too. A model can write a text with several
// sequences of tokens, and each that spells an answer counts. Below a branch are the tokens that go on with the text of
// some answer. No grammar and no sampler is needed: they are looked up by their texts.
//
// The tokenizer's own sequence of each answer is always computed to its end. Of the others, those that are rare among
// the sequences that spell an answer are left out. What is left out depends on the sequence alone, never on when it was
// computed. So the result has the same bits under any load.

// spellings are the answers of a request with generation.Params.Choice.
type spellings struct {
	vocab     *llama.Vocab
	answers   []answer // sorted by text
	endings   []llama.Token
	whole     bool
	maxTokens int
}

// answer is one text of an answer.
type answer struct {
	index  int // in generation.Choice.Answers
	text   string
	tokens []llama.Token
	common int // length in bytes of the prefix that its text shares with the text before it in the list
}

// spelled is how much of the answers a branch has spelled.
type spelled struct {
	lo, hi, at int     // answers[lo:hi] begin with the branch's text, which has at bytes
	share      float64 // logarithm of its share of the probability of all sequences that spell an answer
	strayed    int     // tokens since the sequence differs from the tokenizer's
	sum        float64 // logarithm of the probability of all children together, set by children
}

// leastShare is the share (spelled.share) below which a sequence that differs from the tokenizer's is dropped. The
// bound grows with strayed, so a request has at most about ln(tokens) / leastShare such branches.
const leastShare = 1e-3

// control precedes the id (4 bytes, big-endian) of a control token in the text of an answer. UTF-8 has no such byte.
const (
	control     = "\xff"
	controlSize = 5
)

func (e *Engine) newSpellings(g *generation.Request) (*spellings, error) {
	s := &spellings{vocab: e.vocab, endings: e.endings, whole: g.Choice.Whole, maxTokens: g.MaxTokens}
	for i, texts := range g.Choice.Answers {
		for _, tokens := range texts {
			text, err := s.textOf(tokens)
			if err != nil {
				return nil, fmt.Errorf("scheduler: answer %d %w", i, err)
			}
			s.answers = append(s.answers, answer{index: i, text: text, tokens: tokens})
		}
	}
	slices.SortStableFunc(s.answers, func(a, b answer) int { return cmp.Compare(a.text, b.text) })
	s.answers = slices.CompactFunc(s.answers, func(a, b answer) bool { return a.text == b.text && a.index == b.index })
	for i := 1; i < len(s.answers); i++ {
		a, b := &s.answers[i-1], &s.answers[i]
		for b.common < min(len(a.text), len(b.text)) && a.text[b.common] == b.text[b.common] {
			b.common++
		}
		if b.common == len(a.text) && (!s.whole || len(b.text) == len(a.text)) {
			return nil, fmt.Errorf("scheduler: answer %d begins with answer %d", b.index, a.index)
		}
	}
	return s, nil
}

// textOf returns the text that tokens spell, with control. The error is a clause for a message.
func (s *spellings) textOf(tokens []llama.Token) (string, error) {
	var b []byte
	for _, t := range tokens {
		switch {
		case t < 0 || int(t) >= s.vocab.Size():
			return "", fmt.Errorf("has the token %d, the vocabulary has %d", t, s.vocab.Size())
		case s.vocab.IsEOG(t):
			return "", fmt.Errorf("has the token %d, which ends a completion", t)
		case s.vocab.IsControl(t):
			b = append(b, controlText(t)...)
		case bytes.Contains(s.vocab.Piece(t, true), []byte(control)):
			return "", fmt.Errorf("has the token %d, which is not text", t)
		default:
			b = append(b, s.vocab.Piece(t, true)...)
		}
	}
	if len(b) == 0 {
		return "", errors.New("is empty")
	}
	return string(b), nil
}

// controlText returns a control token as in the text of an answer.
func controlText(t llama.Token) []byte {
	return binary.BigEndian.AppendUint32([]byte(control), uint32(t))
}

// next calls f with the tokens that may follow p, some more than once. ends: the token completes an answer.
func (s *spellings) next(p *spelled, f func(t llama.Token, ends bool)) {
	if s.whole && len(s.answers[p.lo].text) == p.at {
		for _, t := range s.endings {
			f(t, true)
		}
	}
	var tokens []llama.Token
	for i := p.lo; i < p.hi; i++ {
		rest, from := s.answers[i].text[p.at:], 1
		if i > p.lo { // shorter texts came with the answer before
			from = max(1, s.answers[i].common-p.at+1)
		}
		if strings.HasPrefix(rest, control) {
			if from <= controlSize {
				f(llama.Token(binary.BigEndian.Uint32([]byte(rest[len(control):controlSize]))), !s.whole && len(rest) == controlSize)
			}
			continue
		}
		plain, _, _ := strings.Cut(rest, control)
		for size := from; size <= min(len(plain), s.vocab.LongestPiece()); size++ {
			tokens = s.vocab.Plain(tokens[:0], plain[:size])
			for _, t := range tokens {
				f(t, !s.whole && size == len(rest))
			}
		}
	}
}

// extend sets b's tokens and spelled: its parent's, followed by the token of b's node. It returns the completed answer,
// or nil.
func (s *spellings) extend(b, parent *branch) *answer {
	p, t := &parent.spelled, b.node.Token
	if s.vocab.IsEOG(t) {
		return &s.answers[p.lo]
	}
	text := string(s.vocab.Piece(t, true))
	if s.vocab.IsControl(t) {
		text = string(controlText(t))
	}
	at := &b.spelled
	*at = spelled{lo: p.lo, hi: p.hi, at: p.at + len(text), share: p.share + b.node.Logprob - parent.node.Logprob - p.sum}
	if !s.regular(parent, t) {
		at.strayed = p.strayed + 1
	}
	b.tokens = append(b.tokens, t)
	for !strings.HasPrefix(s.answers[at.lo].text[p.at:], text) {
		at.lo++
	}
	for !strings.HasPrefix(s.answers[at.hi-1].text[p.at:], text) {
		at.hi--
	}
	if a := &s.answers[at.lo]; !s.whole && len(a.text) == at.at {
		return a
	}
	return nil
}

// regular reports whether b's tokens and next begin the tokenizer's sequence of an answer.
func (s *spellings) regular(b *branch, next llama.Token) bool {
	n := len(b.tokens)
	return b.spelled.strayed == 0 && slices.ContainsFunc(s.answers[b.spelled.lo:b.spelled.hi], func(a answer) bool {
		return n < len(a.tokens) && a.tokens[n] == next && slices.Equal(a.tokens[:n], b.tokens)
	})
}

// children appends to list the tokens that may follow b, with their probabilities given b, except for rare spellings.
// skipped is the probability of those, given b.
func (s *spellings) children(b *branch, row []float32, list []llama.Child) (kept []llama.Child, skipped float64, err error) {
	p := &b.spelled
	best := llama.Token(0)
	for t, x := range row {
		if math.IsNaN(float64(x)) {
			return list, 0, fmt.Errorf("%w: the logits hold NaN", llama.ErrCompute)
		}
		if x > row[best] {
			best = llama.Token(t)
		}
	}
	sum := llama.LogSum(row)
	if math.IsInf(sum, 0) {
		return list, 0, fmt.Errorf("%w: the logits hold no finite number", llama.ErrCompute)
	}
	var logprobs []float64
	begins := false
	s.next(p, func(t llama.Token, _ bool) {
		logprobs, begins = append(logprobs, float64(row[t])-sum), begins || t == best
	})
	if b.node.Parent == nil {
		b.tree.best = begins
	}
	slices.Sort(logprobs)
	p.sum = search.LogSum(logprobs)
	least := math.Log(leastShare * float64(1+p.strayed))
	s.next(p, func(t llama.Token, ends bool) {
		x := float64(row[t]) - sum
		rare := len(b.tokens)+1 >= s.maxTokens || p.share+x-p.sum < least
		if rare && !ends && !s.regular(b, t) {
			skipped += math.Exp(x)
			return
		}
		list = append(list, llama.Child{Token: t, Logprob: float32(x)})
	})
	return list, skipped, nil
}

// chances returns the completion of a request with Choice, with the Chances that its search has found.
func (t *tree) chances() generation.Completion {
	n := len(t.request.gen.Choice.Answers)
	c := &generation.Chances{Logprobs: make([]float64, n), Paths: make([]int, n), Best: t.best, Rows: t.rows}
	for i := range c.Logprobs {
		c.Logprobs[i] = math.Inf(-1)
	}
	for _, o := range t.search.Outcomes() {
		i := o.Node.Data.(*answer).index
		c.Logprobs[i], c.Paths[i] = o.Logprob, o.Paths
	}
	slices.Sort(t.omitted)
	c.Omitted = math.Exp(search.LogSum(t.omitted))
	return generation.Completion{StopToken: -1, Finish: generation.FinishStop, Chances: c}
}

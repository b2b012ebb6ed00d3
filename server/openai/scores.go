package openai

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"agentd/scheduler/generation"
)

// Bounds of scores.
const (
	maxPromptTop = 128     // alternatives of a prompt's token; distillation asks for 100
	maxScored    = 1 << 18 // scored tokens of all prompts of a call, with alternatives
)

// completionScores has the logprobs of a completion's tokens, with the end token.
type completionScores struct {
	Tokens     []string             `json:"tokens"`
	Logprobs   []*float32           `json:"token_logprobs"` // null: not known
	TextOffset []int                `json:"text_offset"`    // in bytes of the text with special tokens
	Top        []map[string]float32 `json:"top_logprobs"`   // the token itself and alternatives; null: not known

	end   int  // of the text, in bytes
	named bool // tokens are written as token_id:17
}

// add appends tokens with their scores, and top alternatives of each.
func (s *completionScores) add(m Model, ids []generation.Token, scores []generation.Score, top int) {
	for i, id := range ids {
		text, piece := pieceOf(m, id, s.named)
		s.Tokens, s.TextOffset = append(s.Tokens, text), append(s.TextOffset, s.end)
		s.end += len(piece)
		score := scoreOf(scores, i)
		own := logprob(score.Logprob)
		var beside map[string]float32
		if own != nil {
			beside = map[string]float32{}
			for _, l := range score.Top[:min(top, len(score.Top))] {
				text, _ := pieceOf(m, l.Token, s.named)
				beside[text] = *logprob(l.Logprob)
			}
			beside[text] = *own
		}
		s.Logprobs, s.Top = append(s.Logprobs, own), append(s.Top, beside)
	}
}

// pieceOf returns the bytes of a token, and how it is written: as their text, or with asID as token_id:17.
func pieceOf(m Model, id generation.Token, asID bool) (text string, piece []byte) {
	piece = m.Piece(id)
	if asID {
		return named(id), piece
	}
	return strings.ToValidUTF8(string(piece), "\ufffd"), piece
}

// logprob returns a pointer to p, nil for NaN.
func logprob(p float32) *float32 {
	if math.IsNaN(float64(p)) {
		return nil
	}
	return new(finite(p))
}

// ranked is a token of prompt_logprobs. Its key is the id.
type ranked struct {
	Logprob float32 `json:"logprob"`
	Rank    int     `json:"rank"`
	Text    string  `json:"decoded_token"`
}

// rankedOf returns an element for each token, which is nil for one without a score, such as the first.
func rankedOf(m Model, ids []generation.Token, scores []generation.Score, top int) []map[string]ranked {
	all := make([]map[string]ranked, len(ids))
	for i, id := range ids {
		own := logprob(scores[i].Logprob)
		if own == nil {
			continue
		}
		all[i] = map[string]ranked{}
		add := func(id generation.Token, p float32, rank int) {
			text, _ := pieceOf(m, id, false)
			all[i][strconv.Itoa(int(id))] = ranked{p, rank, text}
		}
		for k, l := range scores[i].Top[:min(top, len(scores[i].Top))] {
			add(l.Token, *logprob(l.Logprob), k+1)
		}
		add(id, *own, scores[i].Rank)
	}
	return all
}

func masksOf(scores []generation.Score) (masks [][]generation.Token) {
	for i := range scores {
		masks = append(masks, scores[i].Mask)
	}
	return masks
}

// promptScores returns a score for each of n tokens of a prompt, with NaN before index from.
func promptScores(n, from int, r *generation.Result) []generation.Score {
	scores := slices.Repeat([]generation.Score{{Logprob: float32(math.NaN())}}, n)
	if from < n {
		copy(scores[from:], r.PromptScores[len(r.PromptScores)-(n-from):])
	}
	return scores
}

// copied describes scores of a prompt that are copied from request of, beginning with token from.
type copied struct{ of, from int }

// share orders the requests by their prompts. The scores of a prefix that a prompt shares with the prompt before it are
// computed once, and copied.
func (c *completion) share() error {
	total, last := 0, -1
	order := make([]int, len(c.requests))
	for i := range order {
		order[i] = i
	}
	c.copies = make([]copied, len(order))
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(c.requests[a].Prompt, c.requests[b].Prompt) })
	for _, i := range order {
		r := &c.requests[i]
		from := r.ScoreFrom
		if c.scores() {
			total += (len(r.Prompt) - from) * (1 + r.Top)
		}
		if c.copies[i] = (copied{-1, from}); last >= 0 && from > 0 {
			before := c.requests[last].Prompt
			same := 0
			for same < min(len(before), len(r.Prompt)) && before[same] == r.Prompt[same] {
				same++
			}
			if same = min(same, len(r.Prompt)-1); same > from {
				c.copies[i].of, r.ScoreFrom = last, same
			}
		}
		last = i
	}
	if total > maxScored {
		return Refuse("prompt", "asks for %d logprobs; at most %d are possible: send fewer prompts, or raise prompt_logprob_start", total, maxScored)
	}
	c.order = order
	return nil
}

// copyScores adds the copied scores to the results.
func (c *completion) copyScores(results []*generation.Result) {
	for _, i := range c.order {
		from := c.copies[i]
		if from.of < 0 {
			continue
		}
		n := c.requests[i].ScoreFrom - from.from
		all := results[from.of].PromptScores
		all = all[len(all)-(len(c.requests[from.of].Prompt)-from.from):]
		results[i].PromptScores = slices.Concat(all[:n], results[i].PromptScores)
	}
}

package openai

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"agentd/scheduler/generation"
)

// unknown is the logprob -9999 for unknown or infinite ones, as in vLLM.
const unknown = -9999

// chatScores has logprobs in the form of chats, for all tokens of an answer with its calls and its end.
type chatScores struct {
	Content []chatScore `json:"content"`
	Refusal *string     `json:"refusal"`
}

type chatScore struct {
	chatLikely
	Top []chatLikely `json:"top_logprobs"`
}

type chatLikely struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"` // of the token, which may be a part of a character
}

// tokenScore is an element of the logprobs of /inference/v1/generate, with ids.
type tokenScore struct {
	tokenLikely
	Top []tokenLikely `json:"top_logprobs"` // the token itself, then the most probable others
}

type tokenLikely struct {
	ID      generation.Token `json:"token_id"`
	Named   string           `json:"token"` // token_id:17, for clients of vLLM before 0.32
	Logprob float32          `json:"logprob"`
	Rank    *int             `json:"rank"` // from 1; null: not known
}

func named(id generation.Token) string { return fmt.Sprintf("token_id:%d", id) }

func finite(p float32) float32 {
	if math.IsNaN(float64(p)) || p < unknown {
		return unknown
	}
	return p
}

// scoreOf returns the score of token i. Its logprob is NaN if it is unknown.
func scoreOf(scores []generation.Score, i int) generation.Score {
	if i >= len(scores) {
		return generation.Score{Logprob: float32(math.NaN())}
	}
	return scores[i]
}

// chatScoresOf returns the scores of ids with top alternatives. With asIDs, tokens are written as token_id:17.
func chatScoresOf(m Model, ids []generation.Token, scores []generation.Score, top int, asIDs bool) *chatScores {
	one := func(id generation.Token, p float32) chatLikely {
		text, piece := pieceOf(m, id, asIDs)
		l := chatLikely{text, finite(p), make([]int, len(piece))}
		for i, b := range piece {
			l.Bytes[i] = int(b)
		}
		return l
	}
	s := &chatScores{Content: make([]chatScore, len(ids))}
	for i, id := range ids {
		c, score := &s.Content[i], scoreOf(scores, i)
		c.chatLikely, c.Top = one(id, score.Logprob), []chatLikely{}
		for _, l := range score.Top[:min(top, len(score.Top))] {
			c.Top = append(c.Top, one(l.Token, l.Logprob))
		}
	}
	return s
}

// tokenScoresOf returns the scores of ids as logprobs.content. The token itself is the first of its top alternatives.
func tokenScoresOf(ids []generation.Token, scores []generation.Score, top int) map[string][]tokenScore {
	content := make([]tokenScore, len(ids))
	for i, id := range ids {
		c, score := &content[i], scoreOf(scores, i)
		c.tokenLikely = tokenLikely{ID: id, Named: named(id), Logprob: finite(score.Logprob)}
		var others []tokenLikely
		for k, l := range score.Top {
			rank := k + 1
			if l.Token == id {
				c.Rank = &rank
				continue
			}
			others = append(others, tokenLikely{l.Token, named(l.Token), finite(l.Logprob), &rank})
		}
		c.Top = append([]tokenLikely{c.tokenLikely}, others...)
		c.Top = c.Top[:min(len(c.Top), max(top, 1))]
	}
	return map[string][]tokenScore{"content": content}
}

// scored sets p to return logprobs with top alternatives. field is the name of the member for errors.
func scored(p *generation.Params, field string, top int) error {
	if top < 0 || top > maxTop {
		return Refuse(field, "is %d, want 0 to %d", top, maxTop)
	}
	if top > 0 && p.N*p.MaxTokens > maxTops/(top+1) {
		return Refuse(field, "is %d, which for n %d and %d tokens are more than %d alternatives; ask for fewer, or set max_tokens", top, p.N, p.MaxTokens, maxTops)
	}
	p.Scores, p.Top, p.Sample = true, top, true
	return nil
}

// stopAt adds stop_token_ids to p.Stop, without those that end every answer of the model. p is complete but for that.
func (c *sampling) stopAt(p *generation.Params, s *generation.Served) error {
	if len(c.StopTokenIDs) > maxBias {
		return Refuse("stop_token_ids", "has %d tokens, at most %d are allowed", len(c.StopTokenIDs), maxBias)
	}
	err := known("stop_token_ids", c.StopTokenIDs, s)
	ids := slices.DeleteFunc(slices.Clone(c.StopTokenIDs), func(id generation.Token) bool { return slices.Contains(s.Ends, id) })
	if len(ids) > 0 {
		p.Stop = cmp.Or(p.Stop, &generation.Stop{})
		p.Stop.Tokens = ids
	}
	const grammar = "excludes tools that may be called, response_format and structured_outputs; remove one of them"
	switch {
	case c.IgnoreEOS && p.Grammar != "":
		return Refuse("ignore_eos", grammar)
	case c.MinTokens > 0 && p.Grammar != "":
		return Refuse("min_tokens", grammar)
	case c.MinTokens > 0 && p.Stop != nil:
		return Refuse("min_tokens", "excludes stop and stop_token_ids; remove one of them")
	}
	return err
}

// known refuses ids that are not in the vocabulary.
func known(field string, ids []generation.Token, s *generation.Served) error {
	for i, id := range ids {
		if id < 0 || int(id) >= s.Size {
			return Refuse(path(field, i), "is %d, and the vocabulary has %d tokens", id, s.Size)
		}
	}
	return nil
}

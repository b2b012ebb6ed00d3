package rows

import (
	"errors"
	"fmt"
	"slices"

	"agentd/protocol"
)

// About is what all rows have: where they come from, and what filters look at. "" is unknown.
type About struct {
	Source    string   `json:"source" parquet:"source"` // file and line
	RunID     string   `json:"run_id" parquet:"run_id"`
	RequestID string   `json:"request_id" parquet:"request_id"`
	SourceID  int64    `json:"source_id" parquet:"source_id"`
	Index     int64    `json:"candidate_index" parquet:"candidate_index"`
	Component string   `json:"component" parquet:"component"`
	Origin    string   `json:"origin" parquet:"origin"`
	Person    string   `json:"person" parquet:"person"` // who corrected it at a console
	Status    string   `json:"status" parquet:"status"`
	Outcome   string   `json:"outcome" parquet:"outcome"`
	Reward    *float64 `json:"reward" parquet:"reward"`
}

// chatRow is one answer of a model or coach with what was asked.
type chatRow struct {
	Messages []message `json:"messages" parquet:"messages,list"`
	Tools    rawJSON   `json:"tools" parquet:"tools"`
	About
}

// pairRow is a chosen answer with a rejected one.
type pairRow struct {
	Prompt   []message `json:"prompt" parquet:"prompt,list"`
	Chosen   []message `json:"chosen" parquet:"chosen,list"`
	Rejected []message `json:"rejected" parquet:"rejected,list"`
	Tools    rawJSON   `json:"tools" parquet:"tools"`
	Reason   string    `json:"reason" parquet:"reason"` // correction or outcome
	About
}

// rolloutRow is what a model generated, by tokens. A number that is not known is null; lists after
// Logprobs are empty if an engine does not report them.
type rolloutRow struct {
	PromptTokenIDs []int64    `json:"prompt_token_ids" parquet:"prompt_token_ids,list"`
	TokenIDs       []int64    `json:"token_ids" parquet:"token_ids,list"`
	Logprobs       []*float64 `json:"logprobs" parquet:"logprobs,list"`
	Masked         []*float64 `json:"masked" parquet:"masked,list"`
	Forced         []int64    `json:"forced" parquet:"forced,list"`   // indexes of TokenIDs
	Drafted        []int64    `json:"drafted" parquet:"drafted,list"` // indexes of TokenIDs
	Text           string     `json:"text" parquet:"text"`            // output_raw
	FinishReason   string     `json:"finish_reason" parquet:"finish_reason"`
	ModelVersion   string     `json:"model_version" parquet:"model_version"`
	About
}

func (s *Situation) about(c *Candidate, x *step) About {
	return About{
		Source: s.Source, RunID: s.RunID, RequestID: s.RequestID, SourceID: s.Input.ID, Index: int64(c.Index),
		Component: x.component, Origin: x.origin, Person: s.Person, Status: c.Status, Outcome: c.Outcome, Reward: c.Reward,
	}
}

// chats writes a row for each answer among the steps of a candidate.
func (e *exporter) chats(s *Situation, c *Candidate) error {
	list := c.steps()
	if len(list) == 0 {
		e.skip("the candidate has no internal steps")
		e.summary.matched = true
	}
	for i := range list {
		if !e.wantsStep(&list[i]) {
			e.summary.Filtered++
			continue
		}
		p, err := list[i].prompt()
		if err != nil {
			e.skip(err.Error())
			continue
		}
		m, err := c.answer(list, i, p)
		if err != nil {
			e.skip(err.Error())
			continue
		}
		row := &chatRow{Messages: append(p.messages, m), Tools: rawJSON(p.tools), About: s.about(c, &list[i])}
		if err := e.chat(row); err != nil {
			return err
		}
		e.summary.Rows++
		if c.Outcome == Failure {
			e.summary.Failures++
		}
	}
	return nil
}

// Reasons of a pair.
const (
	byCorrection = "correction"
	byOutcome    = "outcome"
)

// Reasons why a correction gives no pair. The reasons of chosenPrompt and the rejected answers come beside
// them.
const (
	noDecision  = "the correction has no decision"
	wasWrong    = "the correction failed, or was found faulty itself"
	ledNowhere  = "the run did not go on from the correction"
	noAnswer    = "no other answer to the same input is known"
	allWereFine = "the other answers to the same input succeeded, or the run went on from them"
	filtered    = "a filter leaves it out"
	samePair    = "a saved run or the same task has the same pair"
	noSteps     = "the chosen candidate has no internal_steps, nor has the trajectory step that a correction replaces"
	sameAnswer  = "the rejected answer equals the chosen one or one before"
)

// pairs writes corrections that led on against what they replaced, and the best candidate against
// candidates of a lower rank.
func (e *exporter) pairs(s *Situation) error {
	var best *Candidate
	var most float64
	before := e.summary.Corrections
	for i := range s.Candidates {
		c := &s.Candidates[i]
		if c.corrects {
			e.summary.Corrections++
			reason, err := e.correction(s, c)
			if err != nil {
				return err
			}
			if reason != "" {
				e.summary.Unpaired[reason]++
			}
		}
		if rank, ok := c.rank(); ok && c.Output != nil && (best == nil || rank > most) {
			best, most = c, rank
		}
	}
	var worse []Candidate
	for i := range s.Candidates {
		if rank, ok := s.Candidates[i].rank(); ok && best != nil && rank < most {
			worse = append(worse, s.Candidates[i])
		}
	}
	if len(worse) == 0 {
		if e.summary.Corrections == before {
			e.summary.Equal++
		}
		return nil
	}
	reasons, err := e.against(s, best, worse, byOutcome)
	for _, reason := range reasons {
		if reason == filtered {
			e.summary.Filtered++
		} else {
			e.skip(reason)
		}
	}
	return err
}

// correction writes a correction against the answers that it replaced, or returns why it can't.
func (e *exporter) correction(s *Situation, c *Candidate) (reason string, err error) {
	switch {
	case c.Output == nil:
		return noDecision, nil
	case c.Outcome == Failure:
		return wasWrong, nil
	case !c.led && c.Outcome != Success:
		return ledNowhere, nil
	}
	replaced, answered, err := e.sources.replaced(s, c)
	switch {
	case err != nil:
		return "", err
	case !answered:
		return noAnswer, nil
	case len(replaced) == 0:
		return allWereFine, nil
	}
	rows := e.summary.Rows
	reasons, err := e.against(s, c, replaced, byCorrection)
	switch {
	case err != nil:
		return "", err
	case e.summary.Rows == rows:
		return reasons[0], nil
	}
	for _, reason := range reasons {
		e.skip(reason)
	}
	return "", nil
}

// against writes a row for each rejected candidate that says something else than the chosen one. It
// returns why others gave no row.
func (e *exporter) against(s *Situation, chosen *Candidate, rejected []Candidate, reason string) (skipped []string, err error) {
	if len(chosen.Steps) == 0 && chosen.corrects {
		chosen.Steps = promptOf(rejected)
	}
	list := chosen.steps()
	last := len(list) - 1
	if last < 0 {
		return []string{noSteps}, nil
	}
	if !e.wants(chosen) || !e.wantsStep(&list[last]) {
		return []string{filtered}, nil
	}
	p, err := list[last].prompt()
	if err != nil {
		return []string{err.Error()}, nil //nolint:nilerr // it is counted
	}
	better, err := chosen.answer(list, last, p)
	if err != nil {
		return []string{err.Error()}, nil //nolint:nilerr // it is counted
	}
	written := []string{better.key()}
	corrected := p
	for i := range rejected {
		if reason == byCorrection { // the model was asked for the answer that it replaced
			if p, err = rejected[i].asked(corrected); err != nil {
				skipped = append(skipped, err.Error())
				continue
			}
		}
		worse, err := rejected[i].rejected(p)
		if err != nil {
			skipped = append(skipped, err.Error())
			continue
		}
		if slices.Contains(written, worse.key()) {
			skipped = append(skipped, sameAnswer)
			continue
		}
		if reason == byCorrection && e.repeats(s, p, &better, &worse) {
			skipped = append(skipped, samePair)
			continue
		}
		written = append(written, worse.key())
		row := &pairRow{Prompt: p.messages, Chosen: []message{better}, Rejected: []message{worse}, Tools: rawJSON(p.tools), Reason: reason, About: s.about(chosen, &list[last])}
		if err := e.pair(row); err != nil {
			return skipped, err
		}
		e.summary.Rows++
	}
	return skipped, nil
}

// repeats reports whether a pair of a console's task was written before, for the same task or out of
// the saved run in which the correction was made.
func (e *exporter) repeats(s *Situation, p *prompt, better, worse *message) bool {
	pair, task := hash(p.key(), better.key(), worse.key()), uint64(0)
	if s.task {
		task = hash(s.Source)
	}
	before, there := e.wrote[pair]
	if there && s.task && (before == 0 || before == task) {
		return true
	}
	e.wrote[pair] = task
	return false
}

var errNoTokens = errors.New(`an internal step has no token_ids and logprobs; ask with extra_keys {"return": ["token_ids", "logprobs"]}, or set return: token_ids,logprobs in the server`)

// rollouts writes a row for each generation whose tokens are known.
func (e *exporter) rollouts(s *Situation, c *Candidate) error {
	for _, x := range c.steps() {
		if !e.wantsStep(&x) {
			e.summary.Filtered++
			continue
		}
		row, err := x.rollout()
		switch {
		case errors.Is(err, errNoTokens):
			e.skip(err.Error())
			continue
		case err != nil:
			return fmt.Errorf("candidate %d: %w", c.Index, err)
		}
		// Tokens spell what was asked and answered, and cannot be redacted.
		if e.keys.Replace(x.prompted) != x.prompted || e.keys.Replace(x.output) != x.output {
			e.skip("the tokens spell a key or a header")
			continue
		}
		row.About = s.about(c, &x)
		if err := e.rollout(row); err != nil {
			return err
		}
		e.summary.Rows++
	}
	return nil
}

// rollout reads the tokens of a step.
func (s *step) rollout() (*rolloutRow, error) {
	generated, _ := protocol.Get(s.elements, "generation")
	row := &rolloutRow{Text: s.output, FinishReason: member(generated, "finish_reason"), ModelVersion: member(generated, "model_version")}
	var failed [6]error
	row.PromptTokenIDs, failed[0] = numbers[int64](generated, "prompt_token_ids")
	row.TokenIDs, failed[1] = numbers[int64](generated, "token_ids")
	row.Logprobs, failed[2] = numbers[*float64](generated, "logprobs")
	row.Masked, failed[3] = numbers[*float64](generated, "masked")
	row.Forced, failed[4] = numbers[int64](generated, "forced")
	row.Drafted, failed[5] = numbers[int64](generated, "drafted")
	switch err := errors.Join(failed[:]...); {
	case err != nil:
		return nil, err
	case row.TokenIDs == nil || row.Logprobs == nil || row.PromptTokenIDs == nil:
		return nil, errNoTokens
	case len(row.TokenIDs) != len(row.Logprobs):
		return nil, fmt.Errorf("input_elements.generation has %d token_ids and %d logprobs", len(row.TokenIDs), len(row.Logprobs))
	case row.Masked != nil && len(row.TokenIDs) != len(row.Masked):
		return nil, fmt.Errorf("input_elements.generation has %d token_ids and %d masked", len(row.TokenIDs), len(row.Masked))
	}
	return row, nil
}

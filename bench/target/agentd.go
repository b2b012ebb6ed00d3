package target

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"agentd/bench/workload"
	"agentd/protocol"
)

// Codes of candidates of agentd whose text is no decision.
const (
	codeInvalidOutput = "invalid_output"
	codeTruncated     = "truncated"
)

// Agentd is an agentd. How it samples and how long answers may be is set where it
// is started: --temperature 1 --top-p 1 --top-k 0 --min-p 0 --max-new-tokens N, and
// --fixed-tokens N for Options.FixedTokens. Answers that do not fit the options
// are failures.
type Agentd struct{ *remote }

// NewAgentd makes a target of the agentd at a URL such as http://127.0.0.1:8888.
func NewAgentd(baseURL string, opts ...Option) (*Agentd, error) {
	r, err := newRemote(baseURL, opts)
	if err != nil {
		return nil, err
	}
	return &Agentd{r}, nil
}

// Ask implements [Target].
func (a *Agentd) Ask(ctx context.Context, t *workload.Turn, o Options) (Answer, error) {
	req, body, err := agentdRequest(t, o)
	if err != nil {
		return Answer{}, err
	}
	text, header, err := a.exchange(ctx, http.MethodPost, "/v1/responses", body, maxAnswer)
	if err != nil {
		return Answer{}, err
	}
	answer, err := readAgentd(req, text, header, o)
	answer.Copies = err == nil && t.Candidates > 1 && o.greedy(t)
	return answer, err
}

// agentdRequest is the request of a turn. Of req only what the answer is checked
// against is filled in.
func agentdRequest(t *workload.Turn, o Options) (req *protocol.AgentRequest, body []byte, err error) {
	rawID, _ := protocol.Get(t.Input, "id")
	id, err := strconv.ParseInt(string(rawID), 10, 64)
	if err != nil {
		return nil, nil, fmt.Errorf("agent %d, turn %d: the id of its input is %.40q, not an integer", t.Agent, t.Turn, rawID)
	}
	if t.Candidates < 1 {
		return nil, nil, fmt.Errorf("agent %d, turn %d asks for %d candidates; at least 1 is needed", t.Agent, t.Turn, t.Candidates)
	}
	extra, ok := protocol.Get(t.Input, extraKeys)
	if !ok {
		extra = protocol.Raw("{}")
	}
	if extra.Kind() != '{' {
		return nil, nil, fmt.Errorf("agent %d, turn %d: the extra_keys of its input are no object", t.Agent, t.Turn)
	}
	input := protocol.SetMember(t.Input, "num_outputs", strconv.AppendInt(nil, int64(t.Candidates), 10))
	if _, own := protocol.Get(extra, inferenceMode); o.Greedy || !own {
		input = protocol.SetMember(input, extraKeys, protocol.SetMember(extra, inferenceMode, strconv.AppendBool(nil, o.Greedy)))
	}

	// The same request has the same id in every run, since agentd derives the
	// candidates' seeds from it.
	req = &protocol.AgentRequest{
		RequestID: fmt.Sprintf("bench-%d-%d-%d", o.Seed, t.Agent, t.Turn),
		Inputs:    []protocol.AgentInput{{ID: id, NumOutputs: t.Candidates}},
	}
	body = append(append(append([]byte(`{"request_id":`), protocol.String(req.RequestID)...), `,"inputs":[`...), input...)
	return req, append(body, "]}"...), nil
}

// readAgentd reads the answer to a request.
func readAgentd(req *protocol.AgentRequest, body []byte, header http.Header, o Options) (Answer, error) {
	outs, err := protocol.DecodeAgentOutputs(body)
	if err != nil {
		return Answer{}, contract("the answer breaks the protocol: %w", err)
	}
	if err := protocol.ValidateResponse(req, outs); err != nil {
		return Answer{}, contract("the answer does not answer the request: %w", err)
	}
	times, err := parseTiming(header.Values(headerTiming))
	if err != nil {
		return Answer{}, contract("%w", err)
	}
	answer := Answer{
		Candidates: make([]Candidate, len(outs)), Queue: times.queue, First: times.first,
		PromptTokens: -1, ComputedTokens: -1,
	}
	total := 0
	for i := range outs {
		c, g := readCandidate(&outs[i], &answer)
		if c.Tokens < 0 || total < 0 {
			total = -1
		} else {
			total += c.Tokens
		}
		if answer.PromptTokens < 0 {
			answer.PromptTokens = g.prompt
		}
		if answer.ComputedTokens < 0 && g.prompt >= 0 && g.cached >= 0 {
			answer.ComputedTokens = g.prompt - g.cached
		}
		if err := c.checkLength(i, o, agentdHints); err != nil {
			return Answer{}, err
		}
		answer.Candidates[i] = c
	}
	answer.OutputTokens = total
	return answer, nil
}

// generation is what an internal step says of the model call; -1 where it says
// nothing.
type generation struct{ prompt, cached, output int }

// readCandidate reads the last internal step of a candidate, and the prompt where
// the answer has none yet.
func readCandidate(out *protocol.AgentOutput, answer *Answer) (Candidate, generation) {
	c := Candidate{Tokens: -1}
	if out.Error != nil {
		c.Failure = out.Error.Code
	}
	g := generation{-1, -1, -1}
	if len(out.InternalSteps) == 0 {
		return c, g
	}
	step := out.InternalSteps[len(out.InternalSteps)-1]
	raw, _ := protocol.Get(step, "output_raw")
	c.Text, _ = protocol.Text(raw)
	if answer.Prompt == "" {
		raw, _ = protocol.Get(step, "full_prompt")
		answer.Prompt, _ = protocol.Text(raw)
	}
	elements, _ := protocol.Get(step, "input_elements")
	told, _ := protocol.Get(elements, "generation")
	g = generation{count(told, "prompt_tokens"), count(told, "cached_tokens"), count(told, "completion_tokens")}
	c.Tokens = g.output
	return c, g
}

// count is a member that is a count; -1 when it is not there or something else.
func count(obj protocol.Raw, name string) int {
	raw, _ := protocol.Get(obj, name)
	n, err := strconv.ParseUint(string(raw), 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

// hints say what to do about answers of another length than the options ask for.
type hints struct{ fixed, limit string }

var agentdHints = hints{
	fixed: "start agentd with --fixed-tokens and this number",
	limit: "start agentd with --max-new-tokens and this number",
}

// checkLength holds a candidate against the options' lengths.
func (c *Candidate) checkLength(i int, o Options, h hints) error {
	unread := c.Failure == codeInvalidOutput || c.Failure == codeTruncated
	switch {
	case o.FixedTokens > 0 && unread:
		return contract("candidate %d is %s, but texts of %d tokens each are not to be read; %s", i, c.Failure, o.FixedTokens, h.fixed)
	case c.Failure != "" && !unread || c.Tokens < 0:
	case o.FixedTokens > 0 && c.Tokens != o.FixedTokens:
		return contract("candidate %d has %d tokens where every one shall have %d; %s", i, c.Tokens, o.FixedTokens, h.fixed)
	case o.FixedTokens == 0 && o.MaxTokens > 0 && c.Tokens > o.MaxTokens:
		return contract("candidate %d has %d tokens where the limit is %d; %s", i, c.Tokens, o.MaxTokens, h.limit)
	}
	return nil
}

// Counters implements [Target].
func (a *Agentd) Counters(ctx context.Context) (Counters, error) {
	m, err := a.metrics(ctx)
	if err != nil {
		return Counters{}, err
	}
	c := Counters{
		Prefilled: m.number("agentd_prefill_tokens_total"),
		Cached:    m.number("agentd_prefix_cache_hits_total"),
		Generated: m.number("agentd_generation_tokens_total"),
		Steps:     m.number("agentd_steps_total"),
		Rows:      m.number("agentd_step_tokens_total"),
		Evicted:   m.number("agentd_sequences_evicted_total"),
		CellsUsed: m.number("agentd_kv_cache_cells_used"),
		Cells:     m.number("agentd_kv_cache_cells"),
		Running:   m.number("agentd_num_requests_running"),
		Waiting:   m.number("agentd_num_requests_waiting"),
		Phases:    m.by("agentd_step_seconds_total", "part"),
	}
	if c.Steps < 0 {
		return Counters{}, fmt.Errorf("%w: /metrics has no agentd_steps_total; is a model loaded?", ErrNoCounters)
	}
	return c, nil
}

// Describe implements [Target].
func (a *Agentd) Describe(ctx context.Context) (map[string]string, error) {
	body, err := a.get(ctx, "/v1/info")
	if err != nil {
		return nil, err
	}
	info, err := protocol.DecodeAgentInfo(body)
	if err != nil {
		return nil, contract("/v1/info breaks the protocol: %w", err)
	}
	facts := map[string]string{
		"server": "agentd", "agent_id": info.AgentID, "version": info.AgentVersion, "protocol_version": info.ProtocolVersion,
	}
	m, err := a.metrics(ctx)
	if errors.Is(err, ErrNoCounters) {
		return facts, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"agentd_build_info", "agentd_model_info"} {
		for label, text := range m.labels(name) {
			facts[label] = text
		}
	}
	if cells := m.number("agentd_kv_cache_cells"); cells >= 0 {
		facts["kv_cells"] = strconv.FormatFloat(math.Round(cells), 'f', -1, 64)
	}
	return facts, nil
}

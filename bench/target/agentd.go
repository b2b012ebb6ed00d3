package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"

	"agentd/bench/workload"
	"agentd/protocol"
)

// Names of agentd's metrics.
const (
	metricPrefilled = "agentd_prefill_tokens_total"
	metricSteps     = "agentd_steps_total"
	metricRows      = "agentd_step_tokens_total"
	metricCells     = "agentd_kv_cache_cells_used"
	metricPhases    = "agentd_step_seconds_total" // by part
	metricBuild     = "agentd_build_info"
	metricModel     = "agentd_model_info"
)

// Agentd is an agentd. Its own options set sampling and length: --temperature 1
// --top-p 1 --top-k 0 --min-p 0, with --max-new-tokens or --fixed-tokens. An answer
// of another length is a failure.
type Agentd struct {
	*remote

	mu     sync.Mutex
	record io.Writer // of exchanges; nil: none
}

// Record writes each valid exchange as a line to w, in the form that agentd export reads. It must
// be called before Ask.
func (a *Agentd) Record(w io.Writer) { a.record = w }

// Ask implements [Target].
func (a *Agentd) Ask(ctx context.Context, t *workload.Turn, o Options) (Answer, error) {
	if err := o.check(t); err != nil {
		return Answer{}, err
	}
	req := agentdRequest(t, o)
	body := req.AppendJSON(nil)
	text, header, err := a.exchange(ctx, http.MethodPost, "/v1/responses", body)
	if err != nil {
		return Answer{}, err
	}
	answer, err := readAgentd(req, text, header, o)
	if err == nil && a.record != nil {
		a.mu.Lock()
		_, err = fmt.Fprintf(a.record, "{\"request\":%s,\"response\":%s}\n", body, bytes.TrimSpace(text))
		a.mu.Unlock()
		if err != nil {
			return Answer{}, fmt.Errorf("recording: %w", err)
		}
	}
	answer.Copies = err == nil && t.Candidates > 1 && o.Greedy
	return answer, err
}

// agentdRequest is a turn's request.
func agentdRequest(t *workload.Turn, o Options) *protocol.AgentRequest {
	in := t.Input
	in.NumOutputs = t.Candidates
	if in.ExtraKeys == nil {
		in.ExtraKeys = protocol.Raw("{}")
	}
	in.ExtraKeys = protocol.SetMember(in.ExtraKeys, "inference_mode", strconv.AppendBool(nil, o.Greedy))
	if o.Return {
		in.ExtraKeys = protocol.SetMember(in.ExtraKeys, "return", protocol.Raw(`["token_ids","logprobs"]`))
	}
	// agentd derives seeds from the request's id, so every run has the same ids.
	return &protocol.AgentRequest{
		RequestID: fmt.Sprintf("bench-%d-%d-%d", o.Seed, t.Agent, t.Turn), Inputs: []protocol.AgentInput{in},
	}
}

const agentdHint = "start agentd with the same --debug fixed-tokens or --max-new-tokens"

func readAgentd(req *protocol.AgentRequest, body []byte, header http.Header, o Options) (Answer, error) {
	outs, err := protocol.DecodeAgentOutputs(body)
	if err != nil {
		return Answer{}, contract("the answer breaks the protocol: %w", err)
	}
	if err := protocol.ValidateResponse(req, outs); err != nil {
		return Answer{}, contract("the answer does not match the request: %w", err)
	}
	first, err := parseTTFT(header.Values(headerTiming))
	if err != nil {
		return Answer{}, contract("%w", err)
	}
	answer := Answer{
		Candidates: make([]Candidate, len(outs)), First: first, PromptTokens: -1, ComputedTokens: -1,
	}
	for i := range outs {
		c := readCandidate(&outs[i], &answer)
		if c.Tokens < 0 || answer.OutputTokens < 0 { // one is unknown
			answer.OutputTokens = -1
		} else {
			answer.OutputTokens += c.Tokens
		}
		if err := c.checkLength(i, o, agentdHint); err != nil {
			return Answer{}, err
		}
		answer.Candidates[i] = c
	}
	return answer, nil
}

// readCandidate reads the last internal step of a candidate. The first candidate with
// prompt and token counts sets the answer's counts.
func readCandidate(out *protocol.AgentOutput, answer *Answer) Candidate {
	c := Candidate{Tokens: -1}
	if out.Error != nil {
		c.Failure = out.Error.Code
	}
	if len(out.InternalSteps) == 0 {
		return c
	}
	step := out.InternalSteps[len(out.InternalSteps)-1]
	if answer.Prompt == "" {
		raw, _ := protocol.Get(step, "full_prompt")
		answer.Prompt, _ = protocol.Text(raw)
	}
	elements, _ := protocol.Get(step, "input_elements")
	generation, _ := protocol.Get(elements, "generation")
	c.Tokens = count(generation, "completion_tokens")
	prompt, cached := count(generation, "prompt_tokens"), count(generation, "cached_tokens")
	if answer.PromptTokens < 0 {
		answer.PromptTokens = prompt
	}
	if answer.ComputedTokens < 0 && prompt >= 0 && cached >= 0 {
		answer.ComputedTokens = prompt - cached
	}
	return c
}

// count is a member that is a count; -1 if it is missing or something else.
func count(obj protocol.Raw, name string) int {
	raw, _ := protocol.Get(obj, name)
	n, err := strconv.ParseUint(string(raw), 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

// Counters implements [Target].
func (a *Agentd) Counters(ctx context.Context) (Counters, error) {
	m, err := a.metrics(ctx)
	if err != nil {
		return Counters{}, err
	}
	c := Counters{
		Prefilled: m.number(metricPrefilled),
		Steps:     m.number(metricSteps), Rows: m.number(metricRows),
		CellsUsed: m.number(metricCells), Phases: m.by(metricPhases, "part"),
	}
	if c.Steps < 0 {
		return Counters{}, fmt.Errorf("%w: /metrics has no %s; is a model loaded?", ErrNoCounters, metricSteps)
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
	// Other servers have the same protocol. Only agentd has the metric of its build.
	facts := map[string]string{"server": info.AgentID, "agent_id": info.AgentID, "version": info.AgentVersion}
	m, err := a.metrics(ctx)
	if errors.Is(err, ErrNoCounters) {
		return facts, nil
	}
	if err != nil {
		return nil, err
	}
	if len(m[metricBuild].GetMetric()) > 0 {
		facts["server"] = "agentd"
	}
	for _, name := range []string{metricBuild, metricModel} {
		for _, series := range m[name].GetMetric() {
			maps.Copy(facts, labels(series))
		}
	}
	return facts, nil
}

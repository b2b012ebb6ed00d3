package result

import "math"

// Summary is the summary of a run.
type Summary struct {
	// Span is the seconds from the first intended send to the last answer.
	Span     Value `json:"span_s"`
	Requests int   `json:"requests"`
	// Candidates requested. Decisions are the candidates that ended well.
	Candidates int `json:"candidates"`
	Decisions  int `json:"decisions"`
	// Cancelled requests were under way when the run ended.
	Cancelled int `json:"cancelled_requests"`
	// Failures of requests by kind, and of single candidates by code.
	Failures          map[string]int `json:"failures"`
	CandidateFailures map[string]int `json:"candidate_failures"`

	// Rates are a second of the span. OutputRate counts copies of one generation once.
	DecisionRate Value `json:"decisions_s"`
	RequestRate  Value `json:"requests_s"`
	OutputRate   Value `json:"output_tok_s"`
	// Goodput is requests a second with all decisions within the bound on E2EL; unknown
	// without a bound.
	Goodput Value `json:"goodput_s"`

	// Times in milliseconds of answered requests, from the intended send.
	TTFT Distribution `json:"ttft_ms"`
	TPOT Distribution `json:"tpot_ms"`
	E2EL Distribution `json:"e2el_ms"`

	// Prompt tokens of answered requests: sent, computed, and unique ones. A perfect prefix
	// cache computes each unique token once.
	PromptSent     Value `json:"prompt_tok_sent"`
	PromptComputed Value `json:"prompt_tok_computed"`
	PromptUnique   Value `json:"prompt_tok_unique"`

	Steps  Value `json:"steps"`         // of the model
	KVPeak Value `json:"kv_cells_peak"` // of the samples
	Width  Value `json:"batch_width"`   // rows for each step
	// Phases of the model's steps, in seconds of the whole run.
	Phases map[string]float64 `json:"phases_s"`
	// CPU is the processor time of the server in seconds, Memory the most of the samples in
	// bytes.
	CPU    Value `json:"cpu_s"`
	Memory Value `json:"memory_peak_bytes"`
}

// Summarize sums up a run. unique is the number of unique prompt tokens of answered
// requests. bound is the bound of goodput in milliseconds; 0: none.
func Summarize(records []Record, samples []Sample, unique Value, bound float64) Summary {
	s := Summary{Failures: map[string]int{}, CandidateFailures: map[string]int{}, Phases: map[string]float64{}, PromptUnique: unique}
	var t tally
	for i := range records {
		s.add(&records[i], &t, bound)
	}
	if s.Requests > 0 {
		s.Span = Known((t.last - t.first) / 1000)
	}
	s.DecisionRate = Known(float64(s.Decisions)).Over(s.Span)
	s.RequestRate = Known(float64(t.answered)).Over(s.Span)
	s.OutputRate = t.output.total().Over(s.Span)
	if bound > 0 {
		s.Goodput = Known(float64(t.good)).Over(s.Span)
	}
	s.TTFT, s.TPOT, s.E2EL = Distribute(t.ttft), Distribute(t.tpot), Distribute(t.e2el)
	s.PromptSent, s.PromptComputed = t.sent.total(), t.computed.total()
	s.counted(samples)
	return s
}

// counted takes over the growth of the server's counters.
func (s *Summary) counted(samples []Sample) {
	if len(samples) == 0 {
		return
	}
	first, last := &samples[0].Counters, &samples[len(samples)-1].Counters
	s.Steps = grown(first.Steps, last.Steps)
	s.Width = grown(first.Rows, last.Rows).Over(s.Steps)
	if !s.PromptComputed.Known {
		s.PromptComputed = grown(first.Prefilled, last.Prefilled)
	}
	for name, seconds := range last.Phases {
		if v := grown(first.Phases[name], seconds); v.Known {
			s.Phases[name] = v.X
		}
	}
	for i := range samples {
		if cells := Measured(samples[i].CellsUsed); cells.Known && cells.X >= s.KVPeak.X {
			s.KVPeak = cells
		}
		if memory := samples[i].Memory; memory > s.Memory.X {
			s.Memory, s.CPU = Known(memory), grown(first.CPU, last.CPU)
		}
	}
}

// grown is the growth of a counter. It is unknown if the counter is, or if the server
// was restarted.
func grown(from, to float64) Value {
	if from < 0 || to < from {
		return Value{}
	}
	return Known(to - from)
}

// tally counts the outcomes that add gathers.
type tally struct {
	first, last      float64 // of the span
	answered, good   int
	ttft, tpot, e2el []float64
	sent, computed   sum // prompt tokens
	output           sum
}

// sum is a sum of numbers. One unknown number makes it unknown.
type sum struct {
	x       float64
	some    bool
	unknown bool
}

func (s *sum) add(tokens int) {
	s.some = true
	s.x += float64(tokens)
	s.unknown = s.unknown || tokens < 0
}

func (s *sum) total() Value {
	if s.unknown || !s.some {
		return Value{}
	}
	return Known(s.x)
}

func (s *Summary) add(r *Record, t *tally, bound float64) {
	if r.Failure == "" {
		t.sent.add(r.PromptTokens)
		t.computed.add(r.ComputedTokens)
	}
	if s.Requests == 0 {
		t.first, t.last = r.Intended, r.Done
	}
	t.first, t.last = math.Min(t.first, r.Intended), math.Max(t.last, r.Done)
	s.Requests++
	s.Candidates += r.Candidates
	switch r.Failure {
	case "":
	case Cancelled:
		s.Cancelled++
		return
	default:
		s.Failures[r.Failure]++
		return
	}
	t.answered++
	for code, n := range r.Failures {
		s.CandidateFailures[code] += n
	}
	s.Decisions += r.decisions()
	t.output.add(r.generated())
	for _, x := range []struct {
		list *[]float64
		v    Value
	}{{&t.ttft, Measured(r.TTFT)}, {&t.tpot, r.tpot()}, {&t.e2el, r.E2EL()}} {
		if x.v.Known {
			*x.list = append(*x.list, x.v.X)
		}
	}
	if r.decisions() == r.Candidates && r.E2EL().X <= bound {
		t.good++
	}
}

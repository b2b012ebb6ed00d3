package result

import (
	"strings"
	"time"

	"agentd/bench/target"
)

// answered is a request of two candidates with 11 tokens each: sent at a second,
// its first token after 100 ms, done after a second.
func answered(second float64) Record {
	at := second * 1000
	return Record{
		Intended: at, Sent: at, Done: at + 1000, TTFT: 100,
		Candidates: 2, OutputTokens: 22, PromptTokens: 500, ComputedTokens: 50,
	}
}

// failed is a request that failed after half a second.
func failed(second float64, kind string) Record {
	r := answered(second)
	r.Done = r.Intended + 500
	r.TTFT, r.OutputTokens, r.PromptTokens, r.ComputedTokens = -1, -1, -1, -1
	r.Failure = kind
	return r
}

// counts are the samples of a server that did so much in a run.
func counts(c target.Counters) []Sample { return []Sample{{}, {At: 2000, Counters: c}} }

// run is a run of two seconds with two requests.
func run(name string) *Run {
	r := &Run{
		Version: Version, Made: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Name: name, Commit: "v1", Host: Host{CPU: "CPU", CPUs: 2},
		Trace:   Trace{Hash: strings.Repeat("0123456789abcdef", 4), Agents: 1, Turns: 2, Candidates: 4},
		Load:    Load{Agents: 1},
		Server:  map[string]string{"version": "1"},
		Options: map[string]string{"fixed-tokens": "11"},
		Records: []Record{answered(0), answered(1)},
		Samples: counts(target.Counters{Prefilled: 100, Steps: 10, Rows: 40, CellsUsed: -1, Phases: map[string]float64{"decode": 1.5}}),
		Notes:   []string{"a note"},
	}
	r.Summary = Summarize(r.Records, r.Samples, Known(80), 2000)
	return r
}

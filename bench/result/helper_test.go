package result

import (
	"strings"
	"testing"
	"time"
)

// hash is one that a trace may have.
var hash = strings.Repeat("0123456789abcdef", 4)

// answered is a request of two candidates with 11 tokens each: sent at a second,
// its first token after 100 ms, done after a second.
func answered(second float64) Record {
	at := second * 1000
	return Record{
		Intended: at, Sent: at, Done: at + 1000, Queue: 20, TTFT: 100,
		Candidates: 2, Distinct: 2, OutputTokens: 22, PromptTokens: 500, ComputedTokens: 50,
	}
}

// failed is a request that failed after half a second.
func failed(second float64, kind string) Record {
	r := answered(second)
	r.Done = r.Intended + 500
	r.Queue, r.TTFT, r.OutputTokens, r.PromptTokens, r.ComputedTokens, r.Distinct = -1, -1, -1, -1, -1, 0
	r.Failure = kind
	return r
}

// run is a result of two seconds with two requests.
func run(t *testing.T, name string) *File {
	t.Helper()
	f := &File{
		Version: Version,
		Made:    time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Run:     Run{Name: name, Target: "agentd", Args: []string{"run"}, CPU: "CPU", CPUs: 2, Server: map[string]string{"version": "1"}},
		Trace:   Trace{Hash: hash, Kind: "synthetic", Agents: 1, Turns: 2, Candidates: 4},
		Load:    Load{Kind: Closed, Level: 1},
		Options: map[string]string{"fixed-tokens": "11"},
		SLO:     SLO{E2EL: 2 * time.Second},
	}
	f.Summary = Summarize(Input{
		Records: []Record{answered(0), answered(1)}, SLO: f.SLO, Ideal: Known(80),
		Counts: Counts{Prefilled: Known(100), Generated: Known(50), Steps: Known(10), Rows: Known(40), Phases: map[string]float64{"decode": 1.5}},
	})
	return f
}

// must fails the test on an error.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

package report

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/bench/result"
	"agentd/bench/target"
)

// simulated is a run of 6 turns by agents on a server of a given speed, in
// milliseconds for each turn. It is the same for the same seed.
func simulated(name string, agents int, pace float64, seed uint64, counts bool) *result.Run {
	rng := rand.New(rand.NewPCG(seed, uint64(agents)))
	r := &result.Run{
		Version: result.Version, Made: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Name: name, Host: result.Host{CPU: "Some CPU @ 2.00GHz", CPUs: 2},
		Trace:   result.Trace{Hash: strings.Repeat("0123456789abcdef", 4), Agents: 16, Turns: 96, Candidates: 384},
		Load:    result.Load{Agents: agents},
		Options: map[string]string{"fixed-tokens": "32"},
	}
	end := 0.0
	for agent := range 16 {
		at := pace * float64(agent/agents) * 7
		for turn := range 6 {
			took := pace * (1 + float64(agents)/8 + 0.1*float64(turn)) * (0.8 + 0.4*rng.Float64())
			x := result.Record{
				Agent: agent, Turn: turn, Intended: at, Sent: at + 0.1, Done: at + took, TTFT: took * 0.2,
				Candidates: 4, OutputTokens: 128, PromptTokens: 800 + 150*turn, ComputedTokens: 60 + rng.IntN(20),
			}
			if !counts {
				x.ComputedTokens = 200 + 150*turn
			}
			if agent == 3 && turn == 5 {
				x.Failures = map[string]int{"truncated": 1}
			}
			r.Records = append(r.Records, x)
			at += took
		}
		end = max(end, at)
	}
	late := r.Records[len(r.Records)-1]
	late.Failure, late.OutputTokens, late.Turn = "refused", -1, 6
	r.Records = append(r.Records, late)
	for at := 0.0; at < end && counts; at += 250 {
		steps := at / 20
		r.Samples = append(r.Samples, result.Sample{At: at, Counters: target.Counters{
			CellsUsed: 1000 + at/10, Steps: steps, Rows: steps * float64(agents) * 2, Phases: map[string]float64{"decode": at / 1200, "sample": at / 9000},
		}})
	}
	r.Summary = result.Summarize(r.Records, r.Samples, result.Known(5600), 20_000)
	return r
}

// repeated are three repeats of two servers under some loads.
func repeated(loads ...int) []*result.Run {
	var list []*result.Run
	for seed := range uint64(3) {
		for _, agents := range loads {
			list = append(list, simulated("agentd", agents, 900, seed, true), simulated("llama-server", agents, 1700, seed+10, false))
		}
	}
	return list
}

// golden compares text with a file of testdata, or writes it with -rewrite.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; read the diff after -rewrite. Got\n%s", path, got)
	}
}

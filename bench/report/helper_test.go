package report

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/bench/result"
)

// hash is one that a trace may have.
var hash = strings.Repeat("0123456789abcdef", 4)

// simulated is a run of 6 turns by agents on a server of a given speed, in
// milliseconds for each turn. It is the same for the same seed.
func simulated(name string, agents int, pace float64, seed uint64, counts bool) *result.Full {
	rng := rand.New(rand.NewPCG(seed, uint64(agents)))
	f := &result.File{
		Version: result.Version,
		Made:    time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Run: result.Run{
			Name: name, Target: name, Args: []string{"run", "--target", name, "--seed", fmt.Sprint(seed)}, Commit: "0123456789ab",
			CPU: "Some CPU @ 2.00GHz", CPUs: 2, Server: map[string]string{"version": "b1234", "model": "qwen3 0.6B Q8_0"},
		},
		Trace:   result.Trace{Hash: hash, Kind: "synthetic", Agents: 16, Turns: 96, Candidates: 384},
		Load:    result.Load{Kind: result.Closed, Level: float64(agents)},
		Options: map[string]string{"fixed-tokens": "32", "stream": "true"},
		SLO:     result.SLO{TTFT: time.Second, E2EL: 20 * time.Second},
	}
	full := &result.Full{File: f}
	end := 0.0
	for agent := range 16 {
		at := pace * float64(agent/agents) * 7
		for turn := range 6 {
			took := pace * (1 + float64(agents)/8 + 0.1*float64(turn)) * (0.8 + 0.4*rng.Float64())
			r := result.Record{
				Agent: agent, Turn: turn, Intended: at, Sent: at + 0.1, Done: at + took, Queue: took * 0.05, TTFT: took * 0.2,
				Gaps: []float64{took / 40, took / 45}, Candidates: 4, Distinct: 4, OutputTokens: 128,
				PromptTokens: 800 + 150*turn, ComputedTokens: 60 + rng.IntN(20),
			}
			if !counts {
				r.Queue, r.ComputedTokens = -1, 200+150*turn
			}
			if agent == 3 && turn == 5 {
				r.Failures = map[string]int{"truncated": 1}
			}
			full.Records = append(full.Records, r)
			at += took
		}
		end = max(end, at)
	}
	late := full.Records[len(full.Records)-1]
	late.Failure, late.OutputTokens, late.Turn = "timeout", -1, 6
	full.Records = append(full.Records, late)
	for at := 0.0; at < end; at += 250 {
		s := result.Sample{At: at, Running: 8, Waiting: 2, CellsUsed: 1000 + at/10, Width: float64(agents) * (1.5 + rng.Float64()), CacheHits: 0.9 + 0.08*rng.Float64()}
		if !counts {
			s.Width, s.CellsUsed = -1, -1
		}
		full.Samples = append(full.Samples, s)
	}
	in := result.Input{Records: full.Records, Samples: full.Samples, SLO: f.SLO, Ideal: result.Known(5600)}
	if counts {
		in.Counts = result.Counts{
			Generated: result.Known(12_400), Prefilled: result.Known(6000), Steps: result.Known(900), Rows: result.Known(14_000),
			Evicted: result.Known(0), Phases: map[string]float64{"decode": end / 1200, "sample": end / 9000},
		}
	}
	f.Summary = result.Summarize(in)
	return full
}

// repeated are three repeats of two arms under three loads.
func repeated() []*result.Full {
	var list []*result.Full
	for seed := range uint64(3) {
		for _, agents := range []int{4, 8, 16} {
			list = append(list,
				simulated("agentd", agents, 900, seed, true),
				simulated("llama-server", agents, 1700, seed+10, false))
		}
	}
	return list
}

func files(runs []*result.Full) []*result.File {
	list := make([]*result.File, len(runs))
	for i, r := range runs {
		list[i] = r.File
	}
	return list
}

// golden holds text against a file of testdata, or writes it with -rewrite.
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

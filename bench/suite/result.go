package suite

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/bench/ceiling"
	"agentd/bench/result"
)

// Version is of the suite's result file.
const Version = 3

// Result is one comparison.
type Result struct {
	Version     int         `json:"version"`
	Made        time.Time   `json:"made"`
	Commit      string      `json:"commit"`
	CPU         string      `json:"cpu"`
	CPUs        int         `json:"cpus"`
	Threads     int         `json:"threads"`
	AgentdArgs  []string    `json:"agentd_args"` // beyond the suite's own
	Quick       bool        `json:"quick"`
	Repeats     int         `json:"repeats"`
	Load        float64     `json:"load_average"` // of the machine, just before
	Seconds     float64     `json:"seconds"`
	Interrupted bool        `json:"interrupted"`
	Workloads   []*Measured `json:"workloads"`
	Rows        []Row       `json:"rows"`
}

// Measured is one workload. What is unknown was not measured.
type Measured struct {
	*Workload `json:"workload"`
	Counts    Counts  `json:"counts"`
	Error     string  `json:"error"` // that ended it; "": none
	Seconds   float64 `json:"seconds"`

	Tuning []Tried `json:"tuning"`
	Best   Setting `json:"best"` // of llama-server

	Agentd  Figures        `json:"agentd"`
	Server  Figures        `json:"llama_server"`
	Ceiling ceiling.Speeds `json:"ceiling"`
	Batched ceiling.Cache  `json:"batched_bench_cache"`           // with which it was measured
	Abreast ceiling.Cache  `json:"batched_bench_cache_lockstep"`  // and the candidates of one prompt
	Apart   ceiling.Cache  `json:"batched_bench_cache_staggered"` // and what shares nothing
	Ideal   result.Value   `json:"ideal_decisions_s"`

	// Probe says how the rest was measured; its ratios are agentd's to the other's.
	Probe       Probe        `json:"probe"`
	Lockstep    result.Value `json:"lockstep_to_batched_bench"`
	Staggered   result.Value `json:"staggered_to_batched_bench"`
	Cells       result.Value `json:"kv_cells_to_needed"`
	ManyTTFT    result.Value `json:"ttft_of_8_to_1"`
	Constrained result.Value `json:"unconstrained_to_constrained_step"`
	// Of a lockstep step, in microseconds.
	Host   result.Value `json:"host_us"` // plan and commit
	Sample result.Value `json:"sample_us"`
	Decode result.Value `json:"decode_us"`
}

// Probe is how single steps were measured.
type Probe struct {
	Width  int `json:"width"`
	Tokens int `json:"tokens"`
	Prompt int `json:"prompt_tok"`
	Short  int `json:"short_prompt_tok"` // of the staggered requests
}

// Tried is a setting of llama-server with the first turns of the trace.
type Tried struct {
	Setting   Setting      `json:"setting"`
	Decisions result.Value `json:"decisions_s"`
	Error     string       `json:"error"`
}

// Spread of the repeats.
type Spread struct {
	Median result.Value `json:"median"`
	Min    result.Value `json:"min"`
	Max    result.Value `json:"max"`
}

// Figures of an arm.
type Figures struct {
	Repeats   int    `json:"repeats"` // fewer than were to be where the workload ended early
	Decisions Spread `json:"decisions_s"`
	TTFT      Spread `json:"ttft_p50_ms"`
	TPOT      Spread `json:"tpot_p50_ms"`
	E2EL      Spread `json:"e2el_p50_ms"`
	Computed  Spread `json:"prompt_computed_to_ideal"`
	Width     Spread `json:"batch_width"`
	Output    Spread `json:"output_tok"` // of a whole run
}

// Files of a comparison.
const (
	ResultFile = "suite.json"
	TableFile  = "suite.md"
)

// save writes the result and its table.
func (r *Result) save(dir string) error {
	body, err := json.Marshal(r, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("%s: %w", ResultFile, err)
	}
	if err := write(filepath.Join(dir, ResultFile), func(w io.Writer) error {
		_, err := w.Write(append(body, '\n'))
		return err
	}); err != nil {
		return err
	}
	return write(filepath.Join(dir, TableFile), r.WriteMarkdown)
}

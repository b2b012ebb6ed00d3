package result

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is of the result file.
const Version = 2

// File is one run: what ran, under what load, and what was measured. Its records
// and samples lie beside it; see [Save].
type File struct {
	Version int       `json:"version"`
	Made    time.Time `json:"made"` // when the run began
	Run     Run       `json:"run"`
	Trace   Trace     `json:"trace"`
	Load    Load      `json:"load"`
	// Options of the run by the names of their flags: all that must be the same on
	// both sides of a comparison.
	Options map[string]string `json:"options"`
	SLO     SLO               `json:"slo"`
	// Interrupted tells that the run ended early, and by what; "" when it did not.
	Interrupted string  `json:"interrupted"`
	Summary     Summary `json:"summary"`
}

// Run is what ran, and where.
type Run struct {
	Name    string   `json:"name"`   // of the arm: runs with the same name are repeats
	Target  string   `json:"target"` // agentd, llama-server, openai, ideal, …
	Args    []string `json:"args"`   // of agentbench
	Commit  string   `json:"commit"` // of agentbench's own source
	Model   string   `json:"model"`  // SHA-256 of the model file; "" when not told
	CPU     string   `json:"cpu"`
	CPUs    int      `json:"cpus"`    // logical ones that may be used
	GPU     string   `json:"gpu"`     // "" when not told
	Threads string   `json:"threads"` // of the server; "" when not told
	// Server is how the server describes itself, and of one that can stream by [Streamed]
	// whether it was asked to.
	Server map[string]string `json:"server"`
}

// Streamed is the name of a fact in Run.Server.
const Streamed = "streamed"

// Trace is the workload.
type Trace struct {
	Hash       string `json:"hash"` // SHA-256 of its turns
	Kind       string `json:"kind"`
	Agents     int    `json:"agents"`
	Turns      int    `json:"turns"`      // of all agents
	Candidates int    `json:"candidates"` // of all turns
}

// Kinds of load.
const (
	Closed   = "closed"   // so many agents, each waiting for its answer
	Constant = "constant" // requests in equal distances, and so on
	Poisson  = "poisson"
	Gamma    = "gamma"
	Recorded = "recorded" // when they were sent in the recording
)

var loads = []string{Closed, Constant, Poisson, Gamma, Recorded}

// Load is how the trace was sent.
type Load struct {
	Kind string `json:"kind"`
	// Level is agents at a time of a closed loop, requests a second of an open one;
	// 0 as recorded.
	Level float64 `json:"level"`
}

// String is the load for people.
func (l Load) String() string {
	switch l.Kind {
	case Closed:
		return fmt.Sprintf("%g agents", l.Level)
	case Recorded:
		return "as recorded"
	}
	return fmt.Sprintf("%g/s %s", l.Level, l.Kind)
}

// Bounds of a file.
const (
	// maxFile is far above any result without its records, in bytes.
	maxFile = 16 << 20
	// maxLine bounds a line of the requests file, in bytes: 256 candidates of some
	// thousand streamed tokens.
	maxLine = 64 << 20
)

// strict refuses what Encode does not write.
var strict = json.JoinOptions(json.RejectUnknownMembers(true))

// Decode reads a result strictly: unknown and repeated members, other versions
// and values that can't be are errors.
func Decode(body []byte) (*File, error) {
	f := new(File)
	if err := json.Unmarshal(body, f, strict); err != nil {
		return nil, fmt.Errorf("not a result of agentbench: %w", err)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, nil
}

// Encode is what Decode reads, indented.
func (f *File) Encode() ([]byte, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(f, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	return append(body, '\n'), nil
}

func (f *File) check() error {
	if f.Version != Version {
		return fmt.Errorf("version: got %d, this agentbench reads %d", f.Version, Version)
	}
	if f.Made.IsZero() {
		return errors.New("made: is missing")
	}
	if f.Run.Name == "" || f.Run.Target == "" {
		return errors.New("run: name or target is missing")
	}
	if sum, err := hex.DecodeString(f.Trace.Hash); err != nil || len(sum) != 32 {
		return fmt.Errorf("trace.hash: got %q, want the 64 hexadecimal digits of a SHA-256", f.Trace.Hash)
	}
	if !slices.Contains(loads, f.Load.Kind) || f.Load.Level < 0 {
		return fmt.Errorf("load: got %q at %g", f.Load.Kind, f.Load.Level)
	}
	return f.Summary.check()
}

// check refuses counts that can't be.
func (s *Summary) check() error {
	for _, n := range []int{s.Requests, s.Warmup, s.Left, s.Candidates, s.Decisions, s.TTFT.N, s.TPOT.N, s.ITL.N, s.E2EL.N, s.Queue.N} {
		if n < 0 {
			return errors.New("summary: a count is negative")
		}
	}
	if s.Decisions > s.Candidates {
		return fmt.Errorf("summary.decisions: %d of %d candidates can't be", s.Decisions, s.Candidates)
	}
	for _, counts := range []map[string]int{s.Failures, s.CandidateFailures} {
		for kind, n := range counts {
			if n < 0 {
				return fmt.Errorf("summary: %d failures %q can't be", n, kind)
			}
		}
	}
	for _, m := range metrics {
		if v := m.Of(s); v.Known && v.X < 0 {
			return fmt.Errorf("summary: %s is %g and can't be negative", m.Name, v.X)
		}
	}
	return nil
}

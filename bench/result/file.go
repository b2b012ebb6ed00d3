package result

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the version of the result file.
const Version = 4

// Run is one run: what ran, under what load, and what was measured. It is one JSON file.
type Run struct {
	Version int       `json:"version"`
	Made    time.Time `json:"made"`   // when the run started
	Name    string    `json:"name"`   // runs with the same name are repeats
	Commit  string    `json:"commit"` // of agentbench
	Host    Host      `json:"host"`
	Model   string    `json:"model"` // SHA-256 of the model file that rendered the trace; "" without
	Trace   Trace     `json:"trace"`
	Load    Load      `json:"load"`
	// Server describes the server, as far as it says.
	Server map[string]string `json:"server"`
	// Options must be equal in a comparison; by the names of flags.
	Options map[string]string `json:"options"`
	// Interrupted is why the run ended early; "" if it did not.
	Interrupted string   `json:"interrupted"`
	Summary     Summary  `json:"summary"`
	Records     []Record `json:"records"` // in the order of intended times
	Samples     []Sample `json:"samples"`
	// Notes are sentences for the reader, such as the first message of each failure.
	Notes []string `json:"notes"`
}

// Host is the machine of agentbench.
type Host struct {
	CPU  string `json:"cpu"`
	CPUs int    `json:"cpus"`
	Note string `json:"note"` // what the user adds, such as the GPU
}

// Trace is the workload.
type Trace struct {
	Hash       string `json:"hash"`
	Agents     int    `json:"agents"`
	Turns      int    `json:"turns"`      // of all agents
	Candidates int    `json:"candidates"` // of all turns
}

// Load is how the trace was sent.
type Load struct {
	Agents int     `json:"agents"` // of a closed loop; 0 of an open one
	Rate   float64 `json:"rate"`   // requests a second of an open loop; 0 of a closed one
}

func (l Load) String() string {
	if l.Rate > 0 {
		return fmt.Sprintf("%g requests/s", l.Rate)
	}
	return fmt.Sprintf("%d agents", l.Agents)
}

// maxFile bounds a result file in bytes.
const maxFile = 1 << 30

// fileMode of results, which hold no secret.
const fileMode = 0o644

// Save writes a run to a file, whole or not at all.
func (r *Run) Save(path string) error {
	body, err := json.Marshal(r, json.Deterministic(true), jsontext.WithIndent(" "))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return WriteFile(path, func(w io.Writer) error { _, err := w.Write(append(body, '\n')); return err })
}

// WriteFile writes beside the file and renames, so that the file is whole.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	buffered := bufio.NewWriter(f)
	if err = errors.Join(write(buffered), buffered.Flush(), f.Chmod(fileMode), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// Read reads a run that Save wrote.
func Read(path string) (*Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	var about struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(body, &about); err != nil || about.Version != Version {
		return nil, fmt.Errorf("%s is not a result of this agentbench: version %d instead of %d", path, about.Version, Version)
	}
	r := new(Run)
	if err := json.Unmarshal(body, r, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Name == "" || r.Trace.Hash == "" {
		return nil, fmt.Errorf("%s: name or trace is missing", path)
	}
	return r, nil
}

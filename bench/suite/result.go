package suite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// Version is the version of the suite's result file.
const Version = 6

// Result is one comparison.
type Result struct {
	Version     int         `json:"version"`
	Made        time.Time   `json:"made"`
	Commit      string      `json:"commit"`
	Host        result.Host `json:"host"`
	Threads     int         `json:"threads"`
	AgentdArgs  []string    `json:"agentd_args"` // beyond the suite's own
	Quick       bool        `json:"quick"`
	Repeats     int         `json:"repeats"`
	LoadAverage float64     `json:"load_average"` // of the machine, before
	Seconds     float64     `json:"seconds"`
	Interrupted bool        `json:"interrupted"`
	Loads       []*Measured `json:"loads"`
}

// Measured is one load. An unknown figure was not measured.
type Measured struct {
	*Load   `json:"load"`
	Counts  workload.Counts `json:"counts"`
	Error   string          `json:"error"` // "" if none
	Seconds float64         `json:"seconds"`
	// Figures with a goal, by name.
	Figures map[string]result.Value `json:"figures"`

	Tuning []Tried `json:"tuning"`
	Best   Setting `json:"best"` // of llama-server
	Agentd Server  `json:"agentd"`
	VLLM   Server  `json:"vllm"`
	Server Server  `json:"llama_server"`
}

// Tried is a setting of llama-server with the first turns of the trace.
type Tried struct {
	Setting   Setting      `json:"setting"`
	Decisions result.Value `json:"decisions_s"`
	Error     string       `json:"error"`
}

// Server has the spreads of a server's repeats.
type Server struct {
	Repeats   int           `json:"repeats"` // fewer if the load ended early
	Decisions result.Spread `json:"decisions_s"`
	TTFT      result.Spread `json:"ttft_p50_ms"`
	Width     result.Spread `json:"batch_width"`
	Turn      result.Spread `json:"turn_p50_ms"`
	TurnP99   result.Spread `json:"turn_p99_ms"`
	Computed  result.Spread `json:"prompt_tok_computed"`
	Memory    result.Spread `json:"memory_peak_mb"`
	CPU       result.Spread `json:"cpu_s"`
}

// server is the server of a name.
func (m *Measured) server(name string) *Server {
	switch name {
	case target.KindVLLM:
		return &m.VLLM
	case target.KindLlamaServer:
		return &m.Server
	}
	return &m.Agentd
}

// Files of a comparison.
const (
	ResultFile = "suite.json"
	TableFile  = "suite.md"
)

// save writes the result and its tables.
func (r *Result) save(dir string) error {
	body, err := json.Marshal(r, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("%s: %w", ResultFile, err)
	}
	return errors.Join(
		result.WriteFile(filepath.Join(dir, ResultFile), func(w io.Writer) error { _, err := w.Write(append(body, '\n')); return err }),
		result.WriteFile(filepath.Join(dir, TableFile), r.WriteMarkdown))
}

// WriteMarkdown writes the tables.
func (r *Result) WriteMarkdown(w io.Writer) error {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Measured on %s with commit %s: %d CPUs (%s), %d threads of the model, medians of %d repeats, load average %.1f before, %.0f minutes.",
		r.Made.Format("2006-01-02"), r.Commit, r.Host.CPUs, r.Host.CPU, r.Threads, r.Repeats, r.LoadAverage, r.Seconds/60)
	if r.Quick {
		line("\n**A quick look: fewer turns and repeats than the full comparison.**")
	}
	if r.Interrupted {
		line("\n**Interrupted: missing figures were not measured.**")
	}
	if len(r.AgentdArgs) > 0 {
		line("\nMore options of agentd: `%s`.", strings.Join(r.AgentdArgs, " "))
	}
	for _, m := range r.Loads {
		if m.Error != "" {
			line("\n**%s ended early**, after %d repeats of agentd and %d of llama-server: %s", m.Title, m.Agentd.Repeats, m.Server.Repeats, m.Error)
		}
	}
	line("\n| Ratio | Load | Goal | Measured | Reached |\n|---|---|---|---|---|")
	for _, row := range rows {
		for _, m := range r.Loads {
			if row.what != rowVLLM || m.VLLM.Repeats > 0 {
				line("%s", row.line(m))
			}
		}
	}
	r.details(line)
	_, err := w.Write(b.Bytes())
	return err
}

// details writes the figures of the ratios.
func (r *Result) details(line func(string, ...any)) {
	line("\n| Load | Agents × candidates × turns, tokens each | Prompt tokens, unique |\n|---|---|---|")
	for _, m := range r.Loads {
		tokens := fmt.Sprintf("%d", m.FixedTokens)
		if m.FixedTokens == 0 {
			tokens = fmt.Sprintf("up to %d", m.MaxTokens)
		}
		line("| %s | %d × %d × %d, %s | %d, %d |", m.Title, m.Trace.Agents, m.Trace.Candidates, m.Trace.Turns, tokens,
			m.Counts.PromptTokens, m.Counts.UniqueTokens)
	}
	line("\n| Load | Server | Decisions/s | Turn p50, p99 | TTFT p50 | Prompt tokens computed | Memory, peak | Processor time | Batch width |\n|---|---|---|---|---|---|---|---|---|")
	for _, m := range r.Loads {
		for _, name := range []string{target.KindAgentd, target.KindVLLM, target.KindLlamaServer} {
			s := m.server(name)
			if s.Repeats == 0 {
				continue
			}
			line("| %s | %s | %s | %s, %s ms | %s | %s | %s | %s | %s |", m.Title, name, spread(s.Decisions), text(s.Turn.Median, "%.0f"), text(s.TurnP99.Median, "%.0f"),
				text(s.TTFT.Median, "%.0f ms"), text(s.Computed.Median, "%.0f"), text(s.Memory.Median, "%.0f MB"), text(s.CPU.Median, "%.1f s"), text(s.Width.Median, "%.1f"))
		}
	}
	line("\nFigures are medians of the repeats. Decisions/s have the least and the most, too.")
	line("\nSettings of llama-server, tried with the first turns of each trace. The fastest was compared:")
	line("\n| Load | Setting | Decisions/s |\n|---|---|---|")
	for _, m := range r.Loads {
		for _, t := range m.Tuning {
			rate := text(t.Decisions, "%.2f")
			if t.Setting == m.Best {
				rate = "**" + rate + "**"
			}
			line("| %s | `%s` | %s |", m.Title, t.Setting, rate)
		}
	}
}

// spread is the median with the least and the most.
func spread(s result.Spread) string {
	if !s.Median.Known {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", s.Median.X, s.Min.X, s.Max.X)
}

func text(v result.Value, format string) string {
	if !v.Known {
		return "-"
	}
	return fmt.Sprintf(format, v.X)
}

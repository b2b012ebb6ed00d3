package suite

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agentd/bench/result"
)

// WriteMarkdown writes the tables.
func (r *Result) WriteMarkdown(w io.Writer) error {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Measured on %s with commit %s: %d CPUs (%s), %d threads of the model, medians of %s, load average %.1f just before, %.0f minutes.",
		r.Made.Format("2006-01-02"), r.Commit, r.CPUs, r.CPU, r.Threads, count(r.Repeats, "repeat"), r.Load, r.Seconds/60)
	if r.Quick {
		line("\n**A quick look: fewer turns and repeats than the comparison has.**")
	}
	if r.Interrupted {
		line("\n**It was interrupted; what is missing was not measured.**")
	}
	if len(r.AgentdArgs) > 0 {
		line("\nFurther options of agentd: `%s`.", strings.Join(r.AgentdArgs, " "))
	}
	for _, m := range r.Workloads {
		if m.Error != "" {
			line("\n**%s ended early**, with %s of agentd and %d of llama-server: %s", m.Title, count(m.Agentd.Repeats, "repeat"), m.Server.Repeats, m.Error)
		}
	}
	line("\n| Ratio or cost | Load | Goal | Measured | Reached |\n|---|---|---|---|---|")
	for i := range r.Rows {
		row := &r.Rows[i]
		line("| %s | %s | %s | %s | %s |", row.What, row.Workload, row.goal(), row.got(), row.reached())
	}
	r.figures(line)
	_, err := w.Write(b.Bytes())
	return err
}

// figures are what the ratios were made of.
func (r *Result) figures(line func(string, ...any)) {
	line("\n| Load | Agents × candidates × turns, tokens each | Prompt tokens, unique | agentd | llama-server | Ideal | TTFT p50, agentd and llama-server | Batch width, agentd |\n|---|---|---|---|---|---|---|---|")
	for _, m := range r.Workloads {
		tokens := fmt.Sprintf("%d", m.FixedTokens)
		if m.FixedTokens == 0 {
			tokens = fmt.Sprintf("up to %d", m.MaxTokens)
		}
		line("| %s | %d × %d × %d, %s | %d, %d | %s/s | %s/s | %s/s | %s and %s ms | %s |", m.Title, m.Trace.Agents, m.Trace.Candidates, m.Trace.Turns, tokens,
			m.Counts.PromptTokens, m.Counts.UniqueTokens, m.Agentd.Decisions, m.Server.Decisions, text(m.Ideal, "%.2f"),
			text(m.Agentd.TTFT.Median, "%.0f"), text(m.Server.TTFT.Median, "%.0f"), text(m.Agentd.Width.Median, "%.1f"))
	}
	line("\nDecisions a second are medians with the least and the most of the repeats. Speeds of the ideal, and what a step of agentd takes:")
	line("\n| Load | llama-batched-bench | Prefill, tok/s | Decode, tok/s | at width | Steps at width | plan and commit | sample | decode |\n|---|---|---|---|---|---|---|---|---|")
	for _, m := range r.Workloads {
		cache := "-"
		if m.Ceiling.Width > 0 {
			cache = "`" + m.Batched.String() + "`"
		}
		line("| %s | %s | %.0f | %.0f | %d | %d | %s | %s | %s |", m.Title, cache, m.Ceiling.Prefill, m.Ceiling.Decode, m.Ceiling.Width,
			m.Probe.Width, text(m.Host, "%.0f µs"), text(m.Sample, "%.0f µs"), text(m.Decode, "%.0f µs"))
	}
	line("\nSettings of llama-server that were tried with the first turns of each trace; the fastest was compared:")
	line("\n| Load | Setting | Decisions/s |\n|---|---|---|")
	for _, m := range r.Workloads {
		for _, t := range m.Tuning {
			rate := text(t.Decisions, "%.2f")
			if t.Setting == m.Best {
				rate = "**" + rate + "**"
			}
			line("| %s | `%s` | %s |", m.Title, t.Setting, rate)
		}
	}
}

// String is the median with the least and the most.
func (s Spread) String() string {
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

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Marks around the table in a document.
const (
	markBegin = "<!-- suite: begin; agentbench suite --document writes what follows -->\n"
	markEnd   = "<!-- suite: end -->\n"
)

// Renew writes the tables into a Markdown file, between its marks.
func (r *Result) Renew(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, begun := strings.Cut(string(text), markBegin)
	_, foot, ended := strings.Cut(rest, markEnd)
	if !begun || !ended {
		return fmt.Errorf("%s: lacks the lines %q and %q around the tables", path, strings.TrimSpace(markBegin), strings.TrimSpace(markEnd))
	}
	var b bytes.Buffer
	b.WriteString(head + markBegin + "\n")
	if err := r.WriteMarkdown(&b); err != nil {
		return err
	}
	b.WriteString("\n" + markEnd + foot)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	if err = firstError(err, f.Chmod(0o644), f.Close()); err != nil {
		os.Remove(f.Name())
		return err
	}
	return os.Rename(f.Name(), path)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

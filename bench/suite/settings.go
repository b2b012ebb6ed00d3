package suite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/bench/target"
)

// sampling at temperature 1 without top-k, top-p and min-p, as on llama-server.
var sampling = []string{"--temperature", "1", "--top-p", "1", "--top-k", "0", "--min-p", "0"}

// likeOthers turns off rules that llama-server does not have.
var likeOthers = []string{"--debug", "repetition-stop=off", "--calls-per-robot", "any"}

// agentdArgs are agentd's arguments: its defaults, apart from the load and the machine.
func (w *Load) agentdArgs(o *Options) []string {
	args := []string{
		"--model", w.file, "--threads", strconv.Itoa(o.Threads), "--context-length", strconv.Itoa(w.cells()), "--log-level", "warn",
	}
	if w.FixedTokens > 0 {
		args = append(args, "--debug", fmt.Sprint("fixed-tokens=", w.FixedTokens))
	} else {
		args = append(append(args, "--max-new-tokens", strconv.Itoa(w.MaxTokens)), likeOthers...)
	}
	return append(append(args, sampling...), o.AgentdArgs...)
}

// vllmArgs are vLLM's arguments. Its KV cache has as many cells as agentd's, and all
// candidates run at once. It gets tokens and gives none of their texts.
func (w *Load) vllmArgs(o *Options) []string {
	return []string{
		"--model", w.file, "--threads", strconv.Itoa(o.Threads), "--cells", strconv.Itoa(w.cells()), "--dtype", "bfloat16",
		"--max-num-seqs", strconv.Itoa(w.slots()), "--max-model-len", strconv.Itoa(roundUp(w.longest, cellsAlign)), "--skip-tokenizer-init",
	}
}

// Setting is one way to run llama-server. All keep idle slots as they are, since the
// default copies them to host memory with each task and clears a unified cache.
type Setting struct {
	Slots int   `json:"slots"` // -np
	Cache Cache `json:"cache"` // one for all slots, or one for each
}

// String is the setting on a command line.
func (s Setting) String() string { return fmt.Sprintf("-np %d %s", s.Slots, s.Cache) }

// serverArgs are llama-server's arguments. Every slot holds the longest sequence
// of the trace. A unified cache gets as much memory.
func (w *Load) serverArgs(o *Options, s Setting) []string {
	threads := strconv.Itoa(o.Threads)
	return slices.Concat([]string{
		"--model", w.file, "--threads", threads, "--threads-batch", threads,
		"--parallel", strconv.Itoa(s.Slots), "--ctx-size", strconv.Itoa(s.Slots * roundUp(w.longest, cellsAlign)),
		"--metrics", "--offline", "--no-webui", "--no-cache-idle-slots",
	}, s.Cache.args())
}

// settings are all caches with a slot for each candidate, then with a quarter of the
// slots, of which each is used longer. Quick takes the former.
func (w *Load) settings(quick bool) []Setting {
	var list []Setting
	for _, slots := range []int{w.slots(), max(w.slots()/4, w.Trace.Candidates)} {
		for _, unified := range []bool{false, true} {
			// On a CPU "auto" chooses flash attention, though it can be slower.
			list = append(list, Setting{slots, Cache{unified, "auto"}}, Setting{slots, Cache{unified, "off"}})
		}
		if quick || slots == w.Trace.Candidates {
			break
		}
	}
	return list
}

// Cache is how llama.cpp keeps and reads keys and values.
type Cache struct {
	Unified        bool   `json:"unified"`         // one KV cache for all sequences
	FlashAttention string `json:"flash_attention"` // auto, on or off
}

// String is the cache on a command line.
func (c Cache) String() string { return strings.Join(c.args(), " ") }

func (c Cache) args() []string {
	kv := "-no-kvu"
	if c.Unified {
		kv = "-kvu"
	}
	return []string{kv, "-fa", c.FlashAttention}
}

// slots for all candidates at once.
func (w *Load) slots() int { return w.Trace.Agents * w.Trace.Candidates }

// cellsAlign is the multiple to which llama.cpp rounds a sequence's part of the KV cache.
const cellsAlign = 256

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// defaultCells is agentd's --context-length auto on a CPU.
const defaultCells = 32768

// cells of agentd's KV cache: its default, or more if prompts and answers need more.
func (w *Load) cells() int {
	return max(defaultCells, roundUp(w.counts.UniqueTokens+w.counts.Candidates*w.outputTokens(), cellsAlign))
}

// outputTokens of a candidate, at most.
func (w *Load) outputTokens() int { return max(w.FixedTokens, w.MaxTokens) }

// A setting is given up after patience times the time of the best one so far, plus
// patienceLeast for the start of a server.
const (
	patience      = 1.5
	patienceLeast = 5 * time.Second
)

// tune finds the best setting of llama-server with the first turns of the trace.
func (s *session) tune(ctx context.Context, m *Measured) error {
	bestRate := 0.0
	for _, setting := range s.settings(s.Quick) {
		s.best = setting
		began := time.Now()
		tried := Tried{Setting: setting}
		r, err := s.run(ctx, target.KindLlamaServer, s.short, fmt.Sprintf("%s-tune-%d", s.Name, len(m.Tuning)+1))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			tried.Error = err.Error()
		default:
			tried.Decisions = r.Summary.DecisionRate
		}
		m.Tuning = append(m.Tuning, tried)
		if tried.Decisions.X > bestRate {
			bestRate, m.Best = tried.Decisions.X, setting
			s.limit = min(runLimit, time.Duration(patience*float64(time.Since(began)))+patienceLeast)
		}
		s.say("llama-server %s: %.2f decisions/s %s", setting, tried.Decisions.X, tried.Error)
	}
	s.limit, s.best = 0, m.Best
	if bestRate == 0 {
		return fmt.Errorf("llama-server failed with every setting; the last error: %s", m.Tuning[len(m.Tuning)-1].Error)
	}
	return nil
}

package suite

import (
	"fmt"
	"strconv"

	"agentd/bench/ceiling"
	"agentd/bench/target"
)

// sampling at temperature 1 without any cut, what llama-server is asked for too.
var sampling = []string{"--temperature", "1", "--top-p", "1", "--top-k", "0", "--min-p", "0"}

// agentdArgs are agentd's: its defaults, but for what the load and the machine say.
func (w *Workload) agentdArgs(o *Options) func(host, port string) []string {
	return func(host, port string) []string {
		args := []string{
			"--model", w.file, "--host", host, "--port", port, "--threads", strconv.Itoa(o.Threads),
			"--context-length", strconv.Itoa(w.cells()), "--log-level", "warn",
		}
		if w.FixedTokens > 0 {
			args = append(args, "--fixed-tokens", strconv.Itoa(w.FixedTokens))
		} else {
			args = append(args, "--max-new-tokens", strconv.Itoa(w.MaxTokens))
		}
		return append(append(args, sampling...), o.AgentdArgs...)
	}
}

// Setting is one way to run llama-server and to ask it.
type Setting struct {
	Slots int           `json:"slots"` // -np
	Cache ceiling.Cache `json:"cache"` // one for all slots, or one for each
	Mode  target.Mode   `json:"mode"`  // n, or a request for each candidate
}

// String is the setting as the command line has it.
func (s Setting) String() string {
	return fmt.Sprintf("-np %d %s, mode %s", s.Slots, s.Cache, s.Mode)
}

// serverArgs are llama-server's. Every slot has room for the longest sequence of the
// trace; a unified cache gets as much memory, which is more than the load needs.
func (w *Workload) serverArgs(o *Options, s Setting) func(host, port string) []string {
	return func(host, port string) []string {
		threads := strconv.Itoa(o.Threads)
		return append([]string{
			"--model", w.file, "--host", host, "--port", port, "--threads", threads, "--threads-batch", threads,
			"--parallel", strconv.Itoa(s.Slots), "--ctx-size", strconv.Itoa(s.Slots * roundUp(w.longest, cellsAlign)),
			"--metrics", "--offline", "--no-webui",
		}, s.Cache.Args()...)
	}
}

// rounds are those of the search for the fastest setting: each varies what was best so
// far.
func (w *Workload) rounds() []func(best Setting) []Setting {
	return []func(Setting) []Setting{w.first, separate, w.fewer}
}

// first are all caches, with a slot for each candidate.
func (w *Workload) first(Setting) []Setting {
	var list []Setting
	for _, c := range caches() {
		list = append(list, Setting{Slots: w.slots(), Cache: c, Mode: target.ModeN})
	}
	return list
}

// caches are with and without flash attention, which "auto" always chooses on a CPU:
// there it is at times the slower one.
func caches() []ceiling.Cache {
	return []ceiling.Cache{{FlashAttention: "auto"}, {FlashAttention: "off"}, {Unified: true, FlashAttention: "auto"}, {Unified: true, FlashAttention: "off"}}
}

// separate has a request for each candidate.
func separate(best Setting) []Setting {
	best.Mode = target.ModeSeparate
	return []Setting{best}
}

// fewer slots, of which each is used for a longer time.
func (w *Workload) fewer(best Setting) []Setting {
	var list []Setting
	for _, part := range []int{2, 4} {
		if slots := best.Slots / part; slots >= w.Trace.Candidates && slots < best.Slots {
			s := best
			s.Slots = slots
			list = append(list, s)
		}
	}
	return list
}

// slots for all candidates at once.
func (w *Workload) slots() int { return w.Trace.Agents * w.Trace.Candidates }

// cellsAlign is what llama.cpp rounds a sequence's part of the KV cache to.
const cellsAlign = 256

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// cells of agentd's KV cache: its default, or what all of the trace takes, prompts and
// answers, where that is more. A slot of llama-server has as much for itself.
func (w *Workload) cells() int {
	return max(defaultCells, roundUp(w.counts.UniqueTokens+w.counts.Candidates*w.outputTokens(), cellsAlign))
}

// defaultCells is agentd's --context-length auto on a CPU.
const defaultCells = 32768

// outputTokens of a candidate, at most.
func (w *Workload) outputTokens() int {
	if w.FixedTokens > 0 {
		return w.FixedTokens
	}
	return w.MaxTokens
}

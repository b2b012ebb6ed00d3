package suite

import (
	"fmt"
	"strconv"

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
	Slots          int         `json:"slots"`   // -np
	Unified        bool        `json:"unified"` // -kvu: one KV cache for all slots
	Mode           target.Mode `json:"mode"`    // n, or a request for each candidate
	FlashAttention string      `json:"flash_attention"`
}

// String is the setting as the command line has it.
func (s Setting) String() string {
	kv := "-no-kvu"
	if s.Unified {
		kv = "-kvu"
	}
	return fmt.Sprintf("-np %d %s -fa %s, mode %s", s.Slots, kv, s.FlashAttention, s.Mode)
}

// serverArgs are llama-server's. Every slot has room for the longest sequence of the
// trace; a unified cache gets as much memory, which is more than the load needs.
func (w *Workload) serverArgs(o *Options, s Setting) func(host, port string) []string {
	return func(host, port string) []string {
		kv := "--no-kv-unified"
		if s.Unified {
			kv = "--kv-unified"
		}
		threads := strconv.Itoa(o.Threads)
		return []string{
			"--model", w.file, "--host", host, "--port", port, "--threads", threads, "--threads-batch", threads,
			"--parallel", strconv.Itoa(s.Slots), "--ctx-size", strconv.Itoa(s.Slots * roundUp(w.longest, cellsAlign)), kv,
			"--flash-attn", s.FlashAttention, "--metrics", "--offline", "--no-webui",
		}
	}
}

// first are the settings of the first round of the search, which differ in more than
// one thing; later rounds vary what was best in one.
func (w *Workload) first() []Setting {
	var list []Setting
	for _, unified := range []bool{false, true} {
		for _, mode := range []target.Mode{target.ModeN, target.ModeSeparate} {
			list = append(list, Setting{Slots: w.slots(), Unified: unified, Mode: mode, FlashAttention: "auto"})
		}
	}
	return list
}

// next are the variations of the best setting so far: fewer slots, and flash attention
// where llama.cpp would choose by itself.
func (w *Workload) next(best Setting) []Setting {
	var list []Setting
	for _, part := range []int{2, 4} {
		if slots := best.Slots / part; slots >= w.Trace.Candidates && slots < best.Slots {
			s := best
			s.Slots = slots
			list = append(list, s)
		}
	}
	s := best
	s.FlashAttention = "on"
	return append(list, s)
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

package suite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentd/bench/ceiling"
	"agentd/bench/target"
)

// sampling at temperature 1 without any cut, what llama-server is asked for too.
var sampling = []string{"--temperature", "1", "--top-p", "1", "--top-k", "0", "--min-p", "0"}

// likeOthers lets agentd's answers be as long as those of llama-server, which has no
// such rules.
var likeOthers = []string{"--repetition-stop", "off", "--calls-per-robot", "any"}

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
			args = append(args, likeOthers...)
		}
		return append(append(args, sampling...), o.AgentdArgs...)
	}
}

// Setting is one way to run llama-server and to ask it.
type Setting struct {
	Slots int           `json:"slots"`      // -np
	Cache ceiling.Cache `json:"cache"`      // one for all slots, or one for each
	Host  HostCache     `json:"host_cache"` // prompts kept beside it
	Mode  target.Mode   `json:"mode"`       // n, or a request for each candidate
}

// HostCache is which prompts llama-server keeps in host memory, as its command line
// has it.
type HostCache string

// The host caches.
const (
	// hostIdle is its default: with every new task the slots that are idle are copied
	// there and, of a unified KV cache, cleared.
	hostIdle HostCache = ""
	// hostReplaced copies a slot's prompt only when another one takes its place.
	hostReplaced HostCache = "--no-cache-idle-slots"
	hostNone     HostCache = "--cache-ram 0"
)

// Args are the arguments of llama-server.
func (h HostCache) Args() []string { return strings.Fields(string(h)) }

// String is the setting as the command line has it.
func (s Setting) String() string {
	args := append(s.Cache.Args(), s.Host.Args()...)
	return fmt.Sprintf("-np %d %s, mode %s", s.Slots, strings.Join(args, " "), s.Mode)
}

// serverArgs are llama-server's. Every slot has room for the longest sequence of the
// trace; a unified cache gets as much memory, which is more than the load needs.
func (w *Workload) serverArgs(o *Options, s Setting) func(host, port string) []string {
	return func(host, port string) []string {
		threads := strconv.Itoa(o.Threads)
		return slices.Concat([]string{
			"--model", w.file, "--host", host, "--port", port, "--threads", threads, "--threads-batch", threads,
			"--parallel", strconv.Itoa(s.Slots), "--ctx-size", strconv.Itoa(s.Slots * roundUp(w.longest, cellsAlign)),
			"--metrics", "--offline", "--no-webui",
		}, s.Cache.Args(), s.Host.Args())
	}
}

// rounds are those of the search for the fastest setting: each varies what was best so
// far.
func (w *Workload) rounds() []func(best Setting) []Setting {
	return []func(Setting) []Setting{w.first, hosts, separate, w.fewer}
}

// first are all caches, with a slot for each candidate. A unified one is tried without
// clearing idle slots, which would say nothing about it: what it shares is in them.
func (w *Workload) first(Setting) []Setting {
	var list []Setting
	for _, c := range caches() {
		s := Setting{Slots: w.slots(), Cache: c, Host: hostIdle, Mode: target.ModeN}
		if c.Unified {
			s.Host = hostReplaced
		}
		list = append(list, s)
	}
	return list
}

// hosts are without copies of idle slots, which cost each task time. So is a cache for
// each slot where a unified one was better: the first round had it only with them.
func hosts(best Setting) []Setting {
	apart, none := best, best
	apart.Cache.Unified, apart.Host = false, hostReplaced
	none.Host = hostNone
	return []Setting{apart, none}
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

// fewer slots, of which each is used for a longer time. Their prompts replace each
// other, so that the next turn finds them in host memory or nowhere.
func (w *Workload) fewer(best Setting) []Setting {
	var list []Setting
	for _, part := range []int{2, 4} {
		if slots := best.Slots / part; slots >= w.Trace.Candidates && slots < best.Slots {
			s := best
			s.Slots = slots
			if s.Host == hostNone {
				s.Host = hostReplaced
			}
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

package remote

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"agentd/scheduler/generation"
)

// simulated are engines of a simulation: their queues and caches, without HTTP or time.
type simulated struct {
	engine *Engine
	slots  int               // calls that one engine computes at a time
	queue  [][]int           // agents by engine; the first slots of them compute
	cache  []map[string]bool // prefixes in blocks, by engine
}

func simulate(engines, slots int) *simulated {
	s := &simulated{engine: &Engine{}, slots: slots, queue: make([][]int, engines)}
	for i := range engines {
		s.engine.replicas = append(s.engine.replicas, &replica{index: i, state: serving, url: fmt.Sprintf("http://10.0.0.%d:8000", i)})
		s.cache = append(s.cache, map[string]bool{})
	}
	return s
}

// send gives a call of an agent to an engine, as Engine.send does.
func (s *simulated) send(agent int, r *generation.Request) (engine int) {
	chosen := s.engine.order(r)[0]
	chosen.inFlight++
	s.queue[chosen.index] = append(s.queue[chosen.index], agent)
	return chosen.index
}

// work returns the number of calls that end in a number of rounds. In each round an engine ends the calls
// in its slots, and their agents send the next.
func work(engines, agents, slots, rounds int) (done int) {
	s := simulate(engines, slots)
	call := func(agent int) {
		r := request(1)
		r.Session = fmt.Sprint("run-", agent)
		s.send(agent, r)
	}
	for agent := range agents {
		call(agent)
	}
	for range rounds {
		var ended []int
		for i, queue := range s.queue {
			n := min(len(queue), s.slots)
			ended = append(ended, queue[:n]...)
			s.queue[i] = slices.Clone(queue[n:])
			s.engine.replicas[i].inFlight -= n
		}
		done += len(ended)
		for _, agent := range ended {
			call(agent)
		}
	}
	return done
}

func TestTwoSlowEnginesDoNearlyTwiceTheWork(t *testing.T) {
	for _, agents := range []int{16, 32, 64} {
		one, two := work(1, agents, agents/4, 500), work(2, agents, agents/4, 500)
		ratio := float64(two) / float64(one)
		t.Logf("%d agents, %d slots each: two engines do %.2f times the work of one", agents, agents/4, ratio)
		if ratio < 1.9 {
			t.Errorf("%d agents: %.2f times the work", agents, ratio)
		}
	}
}

// cached is the share of prompt tokens that are found in caches, of runs in groups that share a
// system prompt. Every turn appends to its run's prompt.
func cached(t *testing.T, engines int) float64 {
	t.Helper()
	const groups, runs, turns, block = 4, 16, 20, 16
	s := simulate(engines, 4)
	rng := rand.New(rand.NewPCG(1, 2))
	prompts := make([][]generation.Token, groups*runs)
	for run := range prompts {
		group := rand.New(rand.NewPCG(uint64(run%groups), 9))
		for range 800 {
			prompts[run] = append(prompts[run], group.Int32N(4096))
		}
	}
	found, all := 0, 0
	for range turns {
		for _, run := range rng.Perm(len(prompts)) {
			for range 60 {
				prompts[run] = append(prompts[run], rng.Int32N(4096))
			}
			r := request(1)
			r.Prompt, r.Session = prompts[run], fmt.Sprint("run-", run)
			at := s.send(run, r)
			key, hit := "", true
			for i := 0; i+block <= len(r.Prompt); i += block {
				key = fmt.Sprint(weigh(key, fmt.Sprint(r.Prompt[i:i+block])))
				if hit = hit && s.cache[at][key]; hit {
					found += block
				}
				s.cache[at][key] = true
			}
			all += len(r.Prompt)
			if rng.IntN(2) == 0 { // some end, so that loads differ
				for i, queue := range s.queue {
					n := min(len(queue), s.slots)
					s.queue[i] = slices.Clone(queue[n:])
					s.engine.replicas[i].inFlight -= n
				}
			}
		}
	}
	return float64(found) / float64(all)
}

func TestFourEnginesFindNearlyWhatOneCacheFinds(t *testing.T) {
	one, four := cached(t, 1), cached(t, 4)
	t.Logf("one cache: %.3f of the prompt tokens; four engines: %.3f, which is %.3f of that", one, four, four/one)
	if four < 0.95*one {
		t.Errorf("four engines find %.3f, one cache %.3f", four, one)
	}
}

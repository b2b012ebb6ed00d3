package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"agentd/protocol"
)

// TestDecisionsAreTheSameBytesUnderAnyLoad is for make nightly, which names the model. 1, 4 and 16
// agents at once ask for the same greedy decisions, each time in another order.
//
//	AGENTD_SAME_BYTES          GGUF file
//	AGENTD_SAME_BYTES_N        decisions (default 2,000)
//	AGENTD_SAME_BYTES_OPTIONS  options of agentd (default none)
func TestDecisionsAreTheSameBytesUnderAnyLoad(t *testing.T) {
	model := os.Getenv("AGENTD_SAME_BYTES")
	if model == "" {
		t.Skip("no AGENTD_SAME_BYTES; make nightly sets it")
	}
	n, err := strconv.Atoi(cmp.Or(os.Getenv("AGENTD_SAME_BYTES_N"), "2000"))
	if err != nil {
		t.Fatal(err)
	}
	options := os.Getenv("AGENTD_SAME_BYTES_OPTIONS")
	r := serveWith(t, append([]string{"--model", model, "--max-new-tokens", "16"}, strings.Fields(options)...)...)
	inputs := situations(n)
	answers := make([]map[string]bool, n) // to each input
	for i := range answers {
		answers[i] = map[string]bool{}
	}
	for _, agents := range []int{1, 4, 16} {
		order := rand.New(rand.NewPCG(uint64(agents), 1)).Perm(n)
		var mu sync.Mutex
		var all sync.WaitGroup
		for agent := range agents {
			all.Go(func() {
				for k := agent; k < n; k += agents {
					answer, err := decision(r, inputs[order[k]])
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					answers[order[k]][answer] = true
					mu.Unlock()
				}
			})
		}
		all.Wait()
	}
	differ, different := 0, map[string]bool{}
	for _, found := range answers {
		for answer := range found {
			raw, _, _ := strings.Cut(answer, "\n")
			different[raw] = true
		}
		if len(found) > 1 {
			differ++
		}
	}
	t.Logf("options %q: %d of %d decisions have more than one answer; the model wrote %d texts", options, differ, n, len(different))
	if differ > 0 {
		t.Errorf("%d of %d decisions depend on the load", differ, n)
	}
	if len(different) < n/4 {
		t.Errorf("for %d decisions the model wrote %d texts, which shows little; want a quarter at least", n, len(different))
	}
}

// situations are inputs of 20 conversations and more, each with up to four turns of its past. So
// they share prefixes, and the order of the inputs decides what is cached.
func situations(n int) (list []input) {
	const turns = 5
	words := strings.Fields("red blue heavy small old cup box lamp plant book kitchen hall garden office attic bring clean count move open")
	random := rand.New(rand.NewPCG(1, 1))
	sentence := func() string {
		var chosen []string
		for range 6 + random.IntN(12) {
			chosen = append(chosen, words[random.IntN(len(words))])
		}
		return strings.Join(chosen, " ") + "."
	}
	for len(list) < n {
		var past []map[string]string
		for range turns {
			in := user(int64(len(list)), sentence()).greedy()
			memory, err := json.Marshal(map[string]any{"history": past})
			if err != nil {
				panic(err)
			}
			if past != nil {
				in = in.memory(string(memory))
			}
			if len(list)/turns%2 == 0 { // of every other conversation
				in = in.tools(moveTool)
			}
			list = append(list, in)
			past = append(past, map[string]string{"author": "USER", "content": sentence()}, map[string]string{"author": "MODEL", "content": sentence()})
		}
	}
	return list[:n]
}

// decision is what the model wrote, what became of it, and the memory.
func decision(r *running, in input) (string, error) {
	raw, err := json.Marshal(map[string]any{"request_id": "same", "inputs": []input{in}})
	if err != nil {
		return "", err
	}
	outs, err := r.outputs(string(raw), nil)
	if err != nil {
		return "", err
	}
	step, err := protocol.DecodeInternalStep(outs[0].InternalSteps[0])
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\n%s\n%s", step.OutputRaw, answerOf(outs[0]), outs[0].Memory), nil
}

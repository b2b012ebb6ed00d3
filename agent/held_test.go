//go:build !race

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"agentd/agent"
	limits "agentd/internal/base/budget"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// liveBytes is Go's heap without garbage.
func liveBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// weighing measures the heap when all prompts are made.
type weighing struct {
	script
	live int64
}

func (w *weighing) GenerateAll(ctx context.Context, gs []generation.Request, done func(int, *generation.Result, error)) {
	w.live = max(w.live, liveBytes())
	w.script.GenerateAll(ctx, gs, done)
}

// repeatedly is an array of an element.
func repeatedly(element string, n int) string {
	return "[" + strings.Repeat(element+",", n-1) + element + "]"
}

// heldRequests take much more memory than their text, each in another part of the agent.
var heldRequests = map[string]string{
	"an opaque memory, sampled":   fmt.Sprintf(`{"num_outputs":20,"memory":{"map":"%s"}}`, strings.Repeat("x", 1<<20)),
	"an opaque memory, greedy":    fmt.Sprintf(`{"num_outputs":20,"extra_keys":{"inference_mode":true},"memory":{"map":"%s"}}`, strings.Repeat("x", 1<<20)),
	"tiny entries":                fmt.Sprintf(`{"memory":{"history":%s}}`, repeatedly(`{"content":""}`, 20_000)),
	"tiny decisions":              fmt.Sprintf(`{"memory":{"history":%s}}`, repeatedly(`{"author":"MODEL","content":"{\"say\":\"\",\"action\":{}}"}`, 20_000)),
	"a decision of tiny calls":    fmt.Sprintf(`{"memory":{"history":[{"author":"MODEL","content":%s}]}}`, protocol.String(repeatedly(`{"name":"a","arguments":{}}`, 20_000))),
	"tiny rules":                  fmt.Sprintf(`{"memory":{"memory_list":%s}}`, repeatedly(`""`, 100_000)),
	"long texts":                  fmt.Sprintf(`{"memory":{"summary":"%s","history":%s}}`, strings.Repeat("s ", 1<<19), repeatedly(`{"content":"`+strings.Repeat("word ", 1000)+`"}`, 200)),
	"quotes, which are escaped":   fmt.Sprintf(`{"memory":{"history":%s}}`, repeatedly(`{"content":"`+strings.Repeat(`\"`, 5000)+`"}`, 100)),
	"attributes of small values":  fmt.Sprintf(`{"attributes":{"map":%s}}`, repeatedly("0", 500_000)),
	"a tool of small schemas":     fmt.Sprintf(`{"tools":[{"name":"a","parameters":{"type":"object","properties":{"x":{"enum":%s}}}}]}`, repeatedly("0", 100_000)),
	"many tools":                  `{"tools":[` + manyTools(400) + `]}`,
	"a correction, many times":    fmt.Sprintf(`{"num_outputs":100,"memory":{"map":"%s"},"extra_keys":{"coaching":{"kind":"replace_say","say":"no"}}}`, strings.Repeat("x", 1<<20)),
	"tokens of a long prompt":     fmt.Sprintf(`{"num_outputs":4,"extra_keys":{"return":["token_ids"]},"memory":{"summary":"%s"}}`, strings.Repeat("s ", 1<<18)),
	"many outputs of long prompt": fmt.Sprintf(`{"num_outputs":50,"memory":{"summary":"%s"}}`, strings.Repeat("s ", 1<<17)),
}

func manyTools(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name":"tool_%d","description":"Does it.","parameters":{"a":{"type":"string","description":"x"},"b":{"type":"integer"}}}`, i)
	}
	return strings.Join(list, ",")
}

func TestWorkHoldsNoMoreThanCounted(t *testing.T) {
	for name, input := range heldRequests {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t, agent.Config{}, nil)
			req := request(t, input)
			share := limits.New(1 << 40).Share()
			before := liveBytes()
			plan, err := a.Prepare(req, nil)
			if err != nil {
				t.Fatal(err)
			}
			g := &weighing{script: script{answers: []string{"Fine."}}}
			outs, err := a.Run(limits.With(t.Context(), share), plan, g)
			if err != nil {
				t.Fatal(err)
			}
			work, candidates := agent.WorkBytes(req), share.Held()
			const slack = 1 << 20
			if took := g.live - before; took > work+slack {
				t.Errorf("the work takes %d bytes, and %d are counted", took, work)
			}
			_, holds := protocol.ResponseBytes(outs)
			held := int64(holds)
			if held > candidates+slack {
				t.Errorf("the candidates take %d bytes, and %d are counted", held, candidates)
			}
			if candidates > 8*held+slack {
				t.Errorf("%d bytes are counted for candidates of %d", candidates, held)
			}
			runtime.KeepAlive(plan)
		})
	}
}

func TestCandidatesBeyondTheBudgetAreNotGenerated(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	plan, err := a.Prepare(request(t, heldRequests["an opaque memory, sampled"]), nil)
	if err != nil {
		t.Fatal(err)
	}
	share := limits.New(8 << 20).Share()
	g := &script{answers: []string{"Fine."}}
	if _, err := a.Run(limits.With(t.Context(), share), plan, g); !errors.As(err, new(*limits.TooLargeError)) {
		t.Errorf("got %v", err)
	}
	if len(g.asked) > 0 {
		t.Error("they were generated")
	}
}

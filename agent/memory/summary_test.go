package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/protocol"
)

func TestSummarized(t *testing.T) {
	const (
		user  = `{"author":"USER","content":"a","x":1.0}`
		model = `{"author":"model",  "content":"\u0041"}`
	)
	for _, test := range []struct {
		name, before string
		keep         int
		after        string
	}{
		{"the history is emptied and the summary added", `{"history":[` + user + `]}`, 0, `{"history":[],"summary":"S \"é\""}`},
		{"an earlier summary is replaced in its place", `{"summary":"\u0041","a":1.50,"history":[` + user + `]}`, 0, `{"summary":"S \"é\"","a":1.50,"history":[]}`},
		{"a null summary counts as absent, in its place", `{"summary":null,"history":[` + user + `]}`, 0, `{"summary":"S \"é\"","history":[]}`},
		{"everything else keeps its place and bytes", `{"z":1E5,"memory_list":["\u0041"],"history":[` + user + `],"\u0062":{"c":[{}]}}`, 0,
			`{"z":1E5,"memory_list":["\u0041"],"history":[],"\u0062":{"c":[{}]},"summary":"S \"é\""}`},
		{"the newest entries stay byte for byte", `{"history":[` + user + ` , ` + model + `,` + user + `]}`, 2, `{"history":[` + model + `,` + user + `],"summary":"S \"é\""}`},
		{"all entries may stay", `{"history":[` + user + `]}`, 1, `{"history":[` + user + `],"summary":"S \"é\""}`},
		{"reasoning goes with its entries, of whatever format", `{"history":[` + user + `,` + model + `],"_qwen":{"version":1,"turns":{"1":{"kind":"tool_call","reasoning":"x"}}},"_gpt_oss":{"version":1,"turns":{}},"_llama":{"version":1,"turns":{"1":{}}}}`, 0,
			`{"history":[],"summary":"S \"é\""}`},
		{"reasoning follows the entries that stay", `{"_qwen":{"turns":{"0":{"kind":"tool_call","reasoning":"x"},"2":{"kind":"tool_call","reasoning":"\u0041"},"02":{}},"version":1,"more":1.0},"history":[` + model + `,` + user + `,` + model + `]}`, 1,
			`{"_qwen":{"turns":{"0":{"kind":"tool_call","reasoning":"\u0041"}},"version":1,"more":1.0},"history":[` + model + `],"summary":"S \"é\""}`},
		{"what is no such state is not ours", `{"history":[` + user + `],"_qwen":null,"_gpt_oss":{"version":7},"_mine":{"turns":{"0":{}}}}`, 0,
			`{"history":[],"_qwen":null,"_gpt_oss":{"version":7},"_mine":{"turns":{"0":{}}},"summary":"S \"é\""}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := protocol.Raw(test.before)
			m, problems := Parse(before.Clone(), "")
			if len(problems) > 0 {
				t.Fatal(problems.All())
			}
			if diff := cmp.Diff(test.after, string(m.Summarized(`S "é"`, test.keep))); diff != "" {
				t.Error(diff)
			}
			if string(m.raw) != test.before {
				t.Error("the input's memory was changed")
			}
		})
	}
}

// TestSummarizedMemoryIsParsedAgain whatever stays, and have the reasoning of what does.
func TestSummarizedMemoryIsParsedAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var history []protocol.Raw
		reasoning := map[int]string{}
		state := protocol.Raw("{}")
		for i := range random.IntN(12) {
			if random.IntN(2) == 0 {
				history = append(history, protocol.Raw(fmt.Sprintf(`{"content":"u%d"}`, i)))
				continue
			}
			history = append(history, protocol.Raw(fmt.Sprintf(`{"author":"MODEL","content":"m%d"}`, i)))
			if random.IntN(2) == 0 {
				reasoning[i] = fmt.Sprintf("r%d", i)
				state = protocol.AppendMember(state, fmt.Sprint(i), protocol.Raw(fmt.Sprintf(`{"kind":"tool_call","reasoning":"r%d"}`, i)))
			}
		}
		raw := protocol.AppendMember(nil, "history", protocol.AppendElements(nil, history...))
		raw = protocol.AppendMember(raw, QwenKey, protocol.AppendMember(protocol.Raw(`{"version":1}`), "turns", state))
		m, problems := Parse(raw, QwenKey)
		if len(problems) > 0 {
			t.Fatal(problems.All())
		}
		keep := random.IntN(len(history) + 1)
		got, problems := Parse(m.Summarized("S", keep), QwenKey)
		if len(problems) > 0 {
			t.Fatalf("%s keeps %d of %s: %s", m.Summarized("S", keep), keep, raw, problems.All())
		}
		gone := len(history) - keep
		if diff := cmp.Diff(append([]Entry(nil), m.History[gone:]...), got.History); diff != "" || got.Summary != "S" {
			t.Errorf("%q, %s", got.Summary, diff)
		}
		for i := range history {
			want := ""
			if i >= gone {
				want = reasoning[i]
			}
			turn := got.State.Turns[i-gone]
			if have := append(turn.Reasoning, "")[0]; i >= gone && have != want {
				t.Errorf("entry %d, now %d, has the reasoning %q, want %q", i, i-gone, have, want)
			}
		}
		if n := len(got.State.Turns); n > keep {
			t.Errorf("%d turns of %d entries", n, keep)
		}
	}
}

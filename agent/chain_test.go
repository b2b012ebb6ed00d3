//go:build !race

package agent_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// pairs is a vocabulary of bytes, special tokens, and pairs of small letters, so that a text has many
// tokenizations. Its own takes pairs first.
type pairs struct{ specials []string }

const firstPair = 512

func (pairs) Tokenize(text string, _, _ bool) (ids []generation.Token, err error) {
	return split(text, func() bool { return true }), nil
}

// split makes tokens of a text, with a pair wherever there is one and join agrees.
func split(text string, join func() bool) (ids []generation.Token) {
	small := func(i int) bool { return i < len(text) && text[i] >= 'a' && text[i] <= 'z' }
	for i := 0; i < len(text); i++ {
		if small(i) && small(i+1) && join() {
			ids = append(ids, firstPair+26*generation.Token(text[i]-'a')+generation.Token(text[i+1]-'a'))
			i++
			continue
		}
		ids = append(ids, generation.Token(text[i]))
	}
	return ids
}

func (p pairs) Find(piece string) (generation.Token, bool) {
	i := slices.Index(p.specials, piece)
	return generation.Token(256 + i), i >= 0
}

func (pairs) AddBOS() bool          { return false }
func (pairs) BOS() generation.Token { return -1 }
func (pairs) LongestPiece() int     { return 32 }
func (pairs) Size() int             { return firstPair + 26*26 }

func (p pairs) Detokenize(ids []generation.Token, _ bool) string {
	var b strings.Builder
	for _, id := range ids {
		switch {
		case id < 256:
			b.WriteByte(byte(id))
		case id >= firstPair:
			b.WriteByte('a' + byte((id-firstPair)/26))
			b.WriteByte('a' + byte((id-firstPair)%26))
		case int(id)-256 < len(p.specials):
			b.WriteString(p.specials[id-256])
		}
	}
	return b.String()
}

// chatML renders messages as a template would.
type chatML struct{ fakeKit }

func (*chatML) RenderTemplate(vars []byte) (string, error) {
	var v struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal(vars, &v); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, m := range v.Messages {
		fmt.Fprintf(&b, "<|im_start|>%s\n%s<|im_end|>\n", m.Role, strings.TrimSpace(m.Content))
	}
	return b.String() + "<|im_start|>assistant\n", nil
}

// spoken is how models of a format write a call of move, with spaces of their own, and a reply.
var spoken = map[string]struct {
	architecture, template, stop string
	call, say                    func(r *rand.Rand) string
}{
	"qwen2": {architecture: "qwen2", stop: "<|im_end|>", say: words1, call: func(r *rand.Rand) string {
		return "<tool_call>\n" + object(r, "name", "move", "arguments", object(r, "to", words1(r), "target_robot", "a")) + "\n</tool_call>"
	}},
	"qwen3 with thoughts": {architecture: "qwen3", stop: "<|im_end|>",
		say: func(r *rand.Rand) string { return "<think>\n" + words1(r) + "\n</think>\n\n" + words1(r) },
		call: func(r *rand.Rand) string {
			return "<think>\n" + words1(r) + "\n</think>\n\n<tool_call>\n" + object(r, "name", "move", "arguments", object(r, "to", words1(r), "target_robot", "a")) + "\n</tool_call>"
		}},
	"gpt-oss": {architecture: "gpt-oss", stop: "<|return|>",
		say: func(r *rand.Rand) string {
			return "<|channel|>analysis<|message|>" + words1(r) + "<|end|><|start|>assistant<|channel|>final<|message|>" + words1(r)
		},
		call: func(r *rand.Rand) string {
			return "<|channel|>analysis<|message|>" + words1(r) + "<|end|><|start|>assistant to=functions.move<|channel|>commentary json<|message|>" +
				object(r, "to", words1(r), "target_robot", "a")
		}},
	"template": {template: "{{ messages }}", stop: "<|im_end|>", say: words1, call: func(r *rand.Rand) string {
		return "<tool_call>\n" + object(r, "a", object(r, "name", "move", "arguments", object(r, "to", words1(r)))) + "\n</tool_call>"
	}},
}

// words1 are one to four words.
func words1(r *rand.Rand) string {
	list := make([]string, 1+r.IntN(4))
	for i := range list {
		list[i] = []string{"kitchen", "hall", "red cup", "ok", "wait"}[r.IntN(5)]
	}
	return strings.Join(list, " ")
}

// object is a JSON object with random spaces. Values that begin with a brace are objects.
func object(r *rand.Rand, members ...string) string {
	space := func() string { return strings.Repeat(" ", r.IntN(3)) }
	var list []string
	for i := 0; i < len(members); i += 2 {
		value := members[i+1]
		if !strings.HasPrefix(value, "{") {
			value = strconv.Quote(value)
		}
		list = append(list, strconv.Quote(members[i])+":"+space()+value+space())
	}
	return "{" + space() + strings.Join(list, ","+space()) + "}"
}

// TestPromptsGoOnWithTheSampledTokens in random conversations with random tokenizations. make nightly
// sets a larger number of turns.
func TestPromptsGoOnWithTheSampledTokens(t *testing.T) {
	turns := 400
	if text := os.Getenv("AGENTD_CHAIN_TURNS"); text != "" {
		var err error
		if turns, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for name, model := range spoken {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(len(name))))
			vocab := pairs{new(fakeKit).SpecialTokens()}
			cfg := agent.Config{Constrain: agent.ConstrainOff, Prompt: format.Options{
				Architecture: model.architecture, ChatTemplate: model.template, EnableThinking: strings.Contains(name, "thoughts"),
			}}
			a, err := agent.New(cfg, &chatML{}, vocab)
			if err != nil {
				t.Fatal(err)
			}
			made := 0
			for made < turns {
				made += converse(t, r, a, vocab, model.stop, func() string {
					if r.IntN(2) == 0 {
						return model.call(r)
					}
					return model.say(r)
				})
			}
		})
	}
}

// converse makes one conversation, and returns its turns.
func converse(t *testing.T, r *rand.Rand, a *agent.Agent, vocab pairs, stop string, answer func() string) int {
	t.Helper()
	memory := protocol.Raw("{}")
	var before []generation.Token
	length := 1 + r.IntN(20)
	for i := range length {
		g := &script{answers: []string{answer()}, adjust: func(res *generation.Result) {
			c := &res.Completions[0]
			c.Tokens = nil
			for _, s := range specialsOf(c.Text, vocab.specials) {
				if id, ok := vocab.Find(s); ok {
					c.Tokens = append(c.Tokens, id)
				} else {
					c.Tokens = append(c.Tokens, split(s, func() bool { return r.IntN(2) == 0 })...)
				}
			}
			c.Stop = stop
			c.StopToken, _ = vocab.Find(stop)
		}}
		kind, extra, corrected := "user", `{"return":["token_ids"]}`, r.IntN(8) == 0
		if i%2 == 1 {
			kind = "env"
		}
		if corrected {
			extra = `{"coaching":{"kind":"replace_say","text":"ok"}}`
		}
		input := fmt.Sprintf(`{"memory":%s,"instruction":{"type":%q,"content":%q},"attributes":{"time":%d},"extra_keys":%s,`+
			`"tools":[{"name":"move","description":"Move.","parameters":{"to":{"type":"str","description":"Where"}}}]}`, memory, kind, words1(r), i, extra)
		out := run(t, a, g, request(t, input))[0]
		if out.Error != nil {
			t.Fatalf("%s: %+v", g.answers, out.Error)
		}
		memory = out.Memory
		if corrected {
			before = nil
			if strings.Contains(string(memory), `"_tokens"`) {
				t.Fatal("a correction leaves tokens in the memory")
			}
			continue
		}
		step, prompt := string(out.InternalSteps[0]), g.asked[0].Prompt
		if from := `"prompt_from":"text"`; strings.Contains(step, from) != (before == nil) {
			t.Fatalf("turn %d of %d: the step says where its prompt is from: %t that it is text", i, length, before != nil)
		}
		if len(prompt) < len(before) || !slices.Equal(prompt[:len(before)], before) || strings.Contains(step, "next_prompt_differs_at") {
			t.Fatalf("turn %d: the prompt does not begin with the %d tokens before: %s", i, len(before), step)
		}
		if text := vocab.Detokenize(prompt, true); shownBy(t, out, a.Format() == format.Template) != text {
			t.Fatalf("turn %d: full_prompt is not the text of the prompt", i)
		}
		s := decodeTrace(t, out)
		before = slices.Concat(prompt, s.Tokens)
	}
	return length
}

// shownBy is the prompt of a step. It is checked that the messages show the same attributes, and for the template
// of chatML that they make the prompt, or that the step says at which character they do not.
func shownBy(t *testing.T, out protocol.AgentOutput, template bool) string {
	t.Helper()
	var step struct {
		Prompt   string `json:"full_prompt"`
		Elements struct {
			Messages   json.RawMessage `json:"messages"`
			Generation struct {
				Differs *int `json:"prompt_differs_at"`
			} `json:"generation"`
		} `json:"input_elements"`
	}
	if err := json.Unmarshal(out.InternalSteps[0], &step); err != nil {
		t.Fatal(err)
	}
	const heading = "Task attributes: "
	if got, want := strings.Count(string(step.Elements.Messages), heading), strings.Count(step.Prompt, heading); got != want {
		t.Fatalf("the messages show attributes %d times, the prompt %d times", got, want)
	}
	if template {
		made, err := (&chatML{}).RenderTemplate(fmt.Appendf(nil, `{"Messages":%s}`, step.Elements.Messages))
		if err != nil {
			t.Fatal(err)
		}
		switch at := step.Elements.Generation.Differs; {
		case (at == nil) != (made == step.Prompt):
			t.Fatalf("it differs at %v: the messages make\n%s\nand the prompt is\n%s", at, made, step.Prompt)
		case at != nil && (made[:*at] != step.Prompt[:*at] || made[:*at+1] == step.Prompt[:*at+1]):
			t.Fatalf("it differs not at %d: the messages make\n%s\nand the prompt is\n%s", *at, made, step.Prompt)
		}
	}
	return step.Prompt
}

// decodeTrace is what the step of a candidate says of its tokens.
func decodeTrace(t *testing.T, out protocol.AgentOutput) (s traced) {
	t.Helper()
	var step struct {
		Elements struct {
			Generation traced `json:"generation"`
		} `json:"input_elements"`
	}
	if err := json.Unmarshal(out.InternalSteps[len(out.InternalSteps)-1], &step); err != nil {
		t.Fatal(err)
	}
	return step.Elements.Generation
}

// specialsOf cuts a text at special tokens.
func specialsOf(text string, specials []string) (parts []string) {
	for text != "" {
		at, found := len(text), ""
		for _, s := range specials {
			if i := strings.Index(text, s); i >= 0 && i < at {
				at, found = i, s
			}
		}
		if at > 0 {
			parts = append(parts, text[:at])
		}
		if found != "" {
			parts = append(parts, found)
		}
		text = text[min(len(text), at+len(found)):]
	}
	return parts
}

func TestTokensOfAnotherConversationAreNotUsed(t *testing.T) {
	vocab := pairs{new(fakeKit).SpecialTokens()}
	var cfg agent.Config
	cfg.Prompt.Architecture = "qwen2"
	a, err := agent.New(cfg, &fakeKit{}, vocab)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(memory, tools string) (protocol.AgentOutput, string) {
		g := &script{answers: []string{"Hello"}, adjust: func(r *generation.Result) {
			r.Completions[0].Tokens, _ = vocab.Tokenize("Hello", false, false)
			r.Completions[0].StopToken, _ = vocab.Find("<|im_end|>")
		}}
		out := run(t, a, g, request(t, fmt.Sprintf(`{"memory":%s,"tools":[%s],"extra_keys":{"return":["token_ids"]}}`, memory, tools)))[0]
		return out, string(out.InternalSteps[0])
	}
	first, _ := ask("{}", "")
	memory := string(first.Memory)
	for name, test := range map[string]struct {
		memory, tools string
		continues     bool
	}{
		"the same":                {memory, "", true},
		"another tool":            {memory, `{"name":"move"}`, false},
		"another rule":            {strings.Replace(memory, "{", `{"memory_list":["Be fast."],`, 1), "", false},
		"another decision":        {strings.Replace(memory, `\"say\": \"Hello`, `\"say\": \"Bye`, 1), "", false},
		"another vocabulary":      {strings.Replace(memory, `"vocabulary":"`, `"vocabulary":"0`, 1), "", false},
		"ids that do not exist":   {strings.Replace(memory, `"ids":"`, `"ids":"/////w==`, 1), "", false},
		"ids that are cut":        {strings.Replace(memory, `"ids":"`, `"ids":"A`, 1), "", false},
		"more ids than a context": {strings.Replace(memory, `"ids":"`, `"ids":"`+strings.Repeat("AAAA", 1<<20), 1), "", false},
		"no object":               {strings.Replace(memory, `"_tokens":{`, `"_tokens":5,"other":{`, 1), "", false},
		"without the conversion":  {`{}`, "", false},
	} {
		out, step := ask(test.memory, test.tools)
		if strings.Contains(step, `"prompt_from":"tokens"`) != test.continues || out.Error != nil {
			t.Errorf("%s: %v %s", name, out.Error, step)
		}
	}
}

func TestClosedTurnIsNotClosedTwice(t *testing.T) {
	special := func(text string) format.Segment { return format.Segment{Text: text, Special: true} }
	for name, test := range map[string]struct {
		segments []format.Segment
		turn     int
		ended    bool
		want     string
	}{
		"at once":            {[]format.Segment{{Text: "ab"}, special("<e>"), {Text: "c"}}, 2, true, "Xc"},
		"after a space":      {[]format.Segment{{Text: "ab "}, special("<e>"), {Text: "c"}}, 2, true, "Xc"},
		"not ended":          {[]format.Segment{{Text: "ab "}, special("<e>"), {Text: "c"}}, 2, false, "X <e>c"},
		"no token closes it": {[]format.Segment{{Text: "ab c"}, special("<e>")}, 2, true, "X c<e>"},
		"two of them":        {[]format.Segment{{Text: "ab"}, special("<e>"), special("<s>")}, 2, true, "X<s>"},
	} {
		p := &format.Prompt{Segments: test.segments, LastTurn: test.turn}
		for _, s := range test.segments {
			p.Text += s.Text
		}
		next := p.After("X", []generation.Token{1}, test.ended)
		text := ""
		for _, s := range next.Segments {
			text += s.Text
		}
		if next.Text != test.want || text != test.want {
			t.Errorf("%s: %q of %q, want %q", name, next.Text, text, test.want)
		}
	}
}

package format_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/llama"
	"agentd/llama/synth"
	"agentd/protocol"
)

// setup is a format over a real vocabulary.
type setup struct {
	name   string
	arch   string
	format string
	o      format.Options // ChatTemplate is a file of the collection, or a source
}

const madeTemplate = `{% for m in messages %}[{{ m.role }}] {{ m.content }}
{% endfor %}{{ permanent_rules | tojson }}{{ summary }}{{ task_attributes | tojson }}{{ tools | tojson }}`

var setups = []setup{
	{"hermes", synth.Qwen3, format.Qwen, format.Options{ChatTemplate: "Qwen-Qwen3-0.6B.jinja"}},
	{"hermes, thinking", synth.Qwen3, format.Qwen, format.Options{ChatTemplate: "Qwen-Qwen3-0.6B.jinja", EnableThinking: true}},
	{"tagged", synth.Qwen3, format.Qwen, format.Options{ChatTemplate: "Qwen3-Coder.jinja"}},
	{"tagged, thinking", synth.Qwen3, format.Qwen, format.Options{ChatTemplate: "Qwen3.5-4B.jinja", EnableThinking: true}},
	{"gpt-oss", synth.GPTOSS, format.GPTOSS, format.Options{ChatTemplate: "openai-gpt-oss-120b.jinja"}},
	{"llama", synth.Llama, format.Llama, format.Options{ChatTemplate: "meta-llama-Llama-3.1-8B-Instruct.jinja"}},
	{"blocks", synth.Qwen3, format.Template, format.Options{ChatTemplate: madeTemplate, EnableThinking: true}},
	{"json", synth.Qwen3, format.Template, format.Options{ChatTemplate: madeTemplate, OutputStyle: format.StyleJSON}},
}

// open makes the setup's format and the model API under it.
func (s setup) open(t testing.TB) (format.Format, *kit) {
	if strings.HasSuffix(s.o.ChatTemplate, ".jinja") {
		s.o.ChatTemplate = reference(t, s.o.ChatTemplate)
	}
	k := newKit(t, s.arch, s.o.ChatTemplate)
	s.o.ModelAPI = k
	return newFormat(t, s.format, s.o), k
}

func catalogOf(t testing.TB, f format.Format, raw []protocol.Raw, robots ...string) *format.Catalog {
	t.Helper()
	set, err := tools.Normalise(raw, robots, "robot")
	if err != nil {
		t.Fatal(err)
	}
	return f.Catalog(set)
}

// checkGrammar makes a sampler with a grammar.
func checkGrammar(m *llama.Model, grammar string) error {
	if grammar == "" {
		return errors.New("the grammar is empty")
	}
	s, err := m.NewSampler(llama.SamplerConfig{Grammar: grammar})
	if err != nil {
		return err
	}
	return s.Close()
}

// admits reports how far a grammar admits a text, and whether it may end there.
func admits(t testing.TB, k *kit, grammar, text string) (prefix string, whole bool) {
	t.Helper()
	s, err := k.model.NewSampler(llama.SamplerConfig{Grammar: grammar})
	if err != nil {
		t.Fatalf("%v in\n%s", err, grammar)
	}
	defer s.Close()
	tokens, err := k.model.Vocab().Tokenize(text, false, true)
	if err != nil {
		t.Fatal(err)
	}
	v := k.model.Vocab()
	end := llama.Token(0)
	for !v.IsEOG(end) {
		end++
	}
	for i, token := range append(tokens, end) {
		if err := s.Accept(token); errors.Is(err, llama.ErrRejected) {
			return k.model.Vocab().Detokenize(tokens[:i], true), false
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return text, true
}

// TestGrammarsAdmitWhatParsersAccept holds grammar and parser of each format
// against each other on answers of every kind.
func TestGrammarsAdmitWhatParsersAccept(t *testing.T) {
	const (
		xmlLook  = "<tool_call>\n<function=look>\n<parameter=target_robot>\narm\n</parameter>\n</function>\n</tool_call>"
		xmlGrasp = "<tool_call>\n<function=grasp>\n<parameter=object>\ncup\n</parameter>\n<parameter=pose>\n{\"x\": -1.5}\n</parameter>\n" +
			"<parameter=soft>\nTrue\n</parameter>\n<parameter=target_robot>\nbase\n</parameter>\n</function>\n</tool_call>"
		llamaLook  = `{"name": "look", "parameters": {"target_robot": "arm"}}`
		llamaGrasp = `{"name": "grasp", "parameters": {"object": "cup", "pose": {"x": -1.5}, "target_robot": "base"}}`

		final = "<|channel|>final<|message|>"
		think = "<|channel|>analysis<|message|>hmm<|end|><|start|>assistant"
	)
	yes := map[string][]string{
		"hermes": {
			"Hello, <b>you</b> \"there\"\n\n{}",
			`<tool_call>` + "\n" + `{"name": "look", "arguments": {"target_robot": "arm"}}` + "\n</tool_call>",
			`<tool_call>` + "\n" + `{"name": "move_to", "arguments": {"place": "a </tool_call> <|im_start|> \u00e9 \n", "speed": 1.50, "path": [1, -2], "target_robot": "arm"}}` + "\n</tool_call>\n" +
				`<tool_call>` + "\n" + `{"name": "look", "arguments": {"target_robot": "base"}}` + "\n</tool_call>",
			`<tool_call>` + "\n" + `{"name": "report", "arguments": {"data": {"a": [null, true, 1e3]}, "tags": [], "either": 5, "target_robot": "arm"}}` + "\n</tool_call>",
		},
		"hermes, thinking": {
			"<think>\nThe <tool_call> tag may come.\n</think>\n\nHello",
			"<think>\nx</think>\n\n" + `<tool_call>` + "\n" + `{"name": "look", "arguments": {"target_robot": "arm"}}` + "\n</tool_call>",
		},
		"tagged":           {"Hello", xmlLook, xmlGrasp + "\n" + xmlLook},
		"tagged, thinking": {"I think.\n</think>\n\nHello", "Look\n</think>\n\n" + xmlLook},
		"gpt-oss": {
			final + "Hello", think + think + final + "Hello",
			` to=functions.look<|channel|>commentary json<|message|>{"target_robot": "arm"}`,
			think + `<|channel|>commentary to=functions.look <|constrain|>json<|message|>{"target_robot": "base"}`,
			` to=functions.call_in_parallel<|channel|>commentary json<|message|>{"calls": [{"name": "look", "arguments": {}, "target_robot": "arm"}, {"name": "grasp", "arguments": {"object": "cup"}, "target_robot": "base"}]}`,
		},
		"llama": {
			"Hello, {you} \"there\"; 5 < 6\n\n{}",
			llamaLook, "<|python_tag|>" + llamaLook, llamaLook + "; " + llamaGrasp, "<|python_tag|>" + llamaGrasp + "; " + llamaLook,
			`{"name": "move_to", "parameters": {"place": "a; <|python_tag|> \u00e9 }", "speed": 1.50, "path": [1, -2], "target_robot": "arm"}}`,
			`<|python_tag|>{"name": "report", "parameters": {"data": {"a": [null, true, 1e3]}, "tags": [], "either": 5, "target_robot": "arm"}}`,
		},
		"blocks": {
			"<think>\nx</think>\n\nHello",
			"<think>\nx</think>\n\n" + `<tool_call>{"arm": {"name": "look", "arguments": {}}}</tool_call>`,
			"<think>\nx</think>\n\n<tool_call>\n" + `[{"arm": {"name": "look", "arguments": {}}}, {"base": {"name": "grasp", "arguments": {"object": "cup"}}}]` + "\n</tool_call>",
		},
		"json": {
			`{"say": "Hello \"you\"", "action": {}}`,
			`{"say": "", "action": {"arm": {"name": "look", "arguments": {}}}}`,
			`{"say": "", "action": {"base": {"name": "look", "arguments": {}}, "arm": {"name": "grasp", "arguments": {"object": "cup"}}}}`,
		},
	}
	// Both refuse these; where the grammar alone refuses, parsers are tolerant.
	no := map[string][]string{
		"hermes": {
			"", " \n", "Hi <think>", "a </tool_call>",
			`<tool_call>` + "\n" + `{"name": "fly", "arguments": {"target_robot": "arm"}}` + "\n</tool_call>",
			`<tool_call>` + "\n" + `{"name": "look", "arguments": {"target_robot": "leg"}}` + "\n</tool_call>",
			`<tool_call>` + "\n" + `{"name": "grasp", "arguments": {"target_robot": "arm"}}` + "\n</tool_call>",
			`<tool_call>` + "\n" + `{"name": "grasp", "arguments": {"object": "fork", "target_robot": "arm"}}` + "\n</tool_call>",
			`<tool_call>` + "\n" + `{"name": "look", "arguments": {"target_robot": "arm"}`,
			`<tool_call>` + "\n" + `{"name": "look", "arguments": {"target_robot": "arm"}}` + "\n</tool_call>\nDone.",
			`Well. <tool_call>` + "\n" + `{"name": "look", "arguments": {"target_robot": "arm"}}` + "\n</tool_call>",
		},
		"hermes, thinking": {"<think>\nnever ends", "<think>\nx</think>\n\n"},
		"tagged": {
			strings.Replace(xmlLook, "look", "fly", 1), strings.Replace(xmlLook, "arm", "leg", 1), xmlLook + "\nDone.",
			strings.Replace(xmlGrasp, "-1.5", "far", 1), strings.Replace(xmlGrasp, "object", "thing", 1), strings.TrimSuffix(xmlLook, "</function>\n</tool_call>"),
		},
		"gpt-oss": {
			"Hello", final, think, "<|channel|>commentary<|message|>Hello", "<|channel|>odd<|message|>Hello", final + "a<|channel|>b<|start|>user",
			` to=functions.fly<|channel|>commentary json<|message|>{"target_robot": "arm"}`,
			` to=browser.open<|channel|>commentary json<|message|>{"target_robot": "arm"}`,
			` to=functions.look<|channel|>commentary json<|message|>{"target_robot": "leg"}`,
			` to=functions.call_in_parallel<|channel|>commentary json<|message|>{"calls": []}`,
			final + "x<|end|><|start|>assistant to=functions.look<|channel|>commentary json<|message|>{\"target_robot\": \"arm\"}",
		},
		"llama": {
			"", " \n", "<|python_tag|>", "<|python_tag|>Hello", "Hi <|python_tag|>" + llamaLook, llamaLook + "; ok", llamaLook + " " + "Done.",
			`{"name": "look"`, `{"name": "look", "parameters": {"target_robot": "arm"}`,
			strings.Replace(llamaLook, "arm", "leg", 1), strings.Replace(llamaGrasp, `"object": "cup", `, "", 1),
			strings.Replace(llamaGrasp, "cup", "fork", 1), "Hi<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nYo", "<|python_tag|>look.call(target_robot=\"arm\")",
		},
		"blocks": {
			"<think>\nx</think>\n\n" + `<tool_call>{"leg": {"name": "look", "arguments": {}}}</tool_call>`,
			"<think>\nx</think>\n\n" + `Hi <tool_call>{"arm": {"name": "look", "arguments": {}}}</tool_call>`,
			"<think>\nx</think>\n\n" + `<tool_call>{"arm": {"name": "grasp", "arguments": {}}}</tool_call>`,
		},
		"json": {`{}`, `{"say": "", "action": {}}`, `Hello`, `{"say": "a", "action": {"arm": {"name": "look", "arguments": {}}}}`, `{"say": 5, "action": {}}`},
	}
	for _, s := range setups {
		f, k := s.open(t)
		c := catalogOf(t, f, sampleTools, "arm", "base")
		grammar, err := c.Grammar()
		if err != nil {
			t.Fatal(err)
		}
		for i, answer := range yes[s.name] {
			t.Run(fmt.Sprintf("%s admits %d", s.name, i), func(t *testing.T) {
				if prefix, ok := admits(t, k, grammar, answer); !ok {
					t.Errorf("the grammar stops after %q of %q", prefix, answer)
				}
				if _, err := f.Parse(answer, c); err != nil {
					t.Errorf("Parse(%q): %v", answer, err)
				}
			})
		}
		for i, answer := range no[s.name] {
			t.Run(fmt.Sprintf("%s refuses %d", s.name, i), func(t *testing.T) {
				if _, ok := admits(t, k, grammar, answer); ok {
					t.Errorf("the grammar admits %q", answer)
				}
				if d, err := f.Parse(answer, c); err == nil {
					t.Errorf("Parse(%q) = %+v, want an error", answer, d)
				} else {
					t.Log(err)
				}
			})
		}
	}
}

// TestConstrainedNoiseAlwaysParses draws tokens at random under the grammars:
// whatever ends must be a decision.
func TestConstrainedNoiseAlwaysParses(t *testing.T) {
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			f, k := s.open(t)
			c := catalogOf(t, f, sampleTools, "arm", "base")
			grammar, err := c.Grammar()
			if err != nil {
				t.Fatal(err)
			}
			eachNoise(t, f, k, grammar, func(answer string) {
				if _, err := f.Parse(answer, c); err != nil {
					t.Errorf("Parse(%q): %v", answer, err)
				}
			})
		})
	}
}

// eachNoise checks what ends of random texts under a grammar.
func eachNoise(t *testing.T, f format.Format, k *kit, grammar string, check func(answer string)) {
	t.Helper()
	const texts, longest = 40, 600
	v := k.model.Vocab()
	logits := make([]float32, v.Size())
	ended := 0
	for seed := range uint64(texts) {
		rng := rand.New(rand.NewPCG(seed, 1))
		sampler, err := k.model.NewSampler(llama.SamplerConfig{
			Grammar: grammar, Temperature: 1, Seed: uint32(seed), SuppressControl: f.SuppressControl(),
		})
		if err != nil {
			t.Fatal(err)
		}
		var tokens []llama.Token
		for len(tokens) < longest {
			for i := range logits {
				logits[i] = float32(rng.NormFloat64()) * 2
				if piece := v.Piece(llama.Token(i), true); v.IsEOG(llama.Token(i)) || strings.ContainsAny(string(piece), `"}]</>`) {
					logits[i] += 4 // or texts never end
				}
			}
			token, err := sampler.Sample(logits)
			if err != nil {
				t.Fatalf("seed %d: %v after %q", seed, err, v.Detokenize(tokens, true))
			}
			if v.IsEOG(token) {
				ended++
				check(v.Detokenize(tokens, true))
				break
			}
			tokens = append(tokens, token)
		}
		sampler.Close()
	}
	if ended < texts/4 {
		t.Errorf("only %d of %d texts ended: the test shows little", ended, texts)
	}
}

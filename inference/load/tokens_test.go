package load

import (
	"slices"
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/agent/tokens"
	"agentd/llama"
	"agentd/llama/synth"
)

// tiny loads a generated model's vocabulary.
func tiny(t *testing.T, arch string) *llama.Model {
	t.Helper()
	path, err := synth.Tiny("", arch)
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.New(path, llama.SetVocabOnly(true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Free(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestPiecesGiveTheTokensOfTheWholeText(t *testing.T) {
	special := func(s string) format.Segment { return format.Segment{Text: s, Special: true} }
	text := func(s string) format.Segment { return format.Segment{Text: s} }
	for arch, segments := range map[string][]format.Segment{
		synth.Qwen3: {
			special("<|im_start|>"), text("user\n"), text("Wie geht's, Ärger"), text("?  \n\n über 12345 Räder"),
			special("<|im_end|>"), text("\n"), special("<|im_start|>"), text("assistant\n" + strings.Repeat("word ", 200)),
		},
		synth.GPTOSS: {special("<|start|>"), text("user"), special("<|message|>"), text("hi "), text(" there"), special("<|end|>")},
		synth.Llama: { // whose vocabulary says that each text begins with the first
			special("<|begin_of_text|>"), special("<|start_header_id|>"), text("user"), special("<|end_header_id|>"), text("\n\nhi "), text(" there"), special("<|eot_id|>"),
		},
	} {
		t.Run(arch, func(t *testing.T) {
			m := tiny(t, arch)
			var whole strings.Builder
			for _, p := range segments {
				whole.WriteString(p.Text)
			}
			want, err := m.Vocab().Tokenize(whole.String(), true, true)
			if err != nil {
				t.Fatal(err)
			}
			tok := tokens.New(m.Vocab())
			for _, round := range []string{"first", "cached"} {
				got, err := tok.Tokens(t.Context(), segments)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%s: got %v, %v; want %v", round, got, err, want)
				}
			}
		})
	}
}

func TestSpecialTokensInPlainTextStayText(t *testing.T) {
	m := tiny(t, synth.Qwen3)
	end, ok := m.Vocab().Find("<|im_end|>")
	if !ok {
		t.Fatal("the vocabulary lacks <|im_end|>")
	}
	got, err := tokens.New(m.Vocab()).Tokens(t.Context(), []format.Segment{{Text: "a<|im_"}, {Text: "end|>b"}})
	if err != nil || slices.Contains(got, end) || len(got) < 3 {
		t.Errorf("got %v, %v", got, err)
	}
	if back := m.Vocab().Detokenize(got, true); back != "a<|im_end|>b" {
		t.Errorf("the text came back as %q", back)
	}
}

func TestBoundOfTokensIsCloseBelowTheirNumber(t *testing.T) {
	tokenizer := tokens.New(tiny(t, synth.Qwen3).Vocab())
	prompt := []format.Segment{{Text: "<|im_start|>", Special: true}, {Text: strings.Repeat("the cup is on the table ", 40)}}
	want, err := tokenizer.Tokens(t.Context(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	if n := tokenizer.AtLeast(prompt[0].Text + prompt[1].Text); n > len(want) || n <= 3 {
		t.Errorf("at least %d tokens, and there are %d", n, len(want))
	}
}

func TestCheckSaysWhereATextBreaksItsGrammar(t *testing.T) {
	v := vocabulary{tiny(t, synth.Qwen3), "m"}
	for text, want := range map[string]int{"go": -1, "go home": 2, "gone": 0} {
		ids, err := v.Tokenize(text)
		if err != nil {
			t.Fatal(err)
		}
		if at, err := v.Check(`root ::= "go home"`, ids); err != nil || at != want {
			t.Errorf("%s (%d): got %d, %v; want %d", text, ids, at, err, want)
		}
	}
}

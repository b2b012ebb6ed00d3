package llama

import (
	"math/rand/v2"
	"strings"
	"testing"

	"agentd/llama/synth"
)

var texts = []string{
	"", " ", "Hello, world!", "  two  spaces\n\n\ttabs\r\n", `{"name": "goto", "arguments": {"x": -1.5e3}}`,
	"Grüße, ñandú, 日本語 テキスト, 한국어, עברית, 🤖👩‍🚀🇩🇪", "e\u0301 combining", "\u0000\u0001\x7f", "<|im_end|>", "a<|im_start|>b", "<<|im_end|>>",
	strings.Repeat("long ", 2000), "<tool_call>\n</tool_call>", "<|start|>system<|message|>x<|end|>", "<think></think>",
}

func TestTokenizeRoundTrip(t *testing.T) {
	for _, arch := range []string{synth.Qwen3, synth.GPTOSS, synth.Llama} {
		v := shared(t, arch).Vocab()
		for _, text := range texts {
			for _, special := range []bool{false, true} {
				tokens, err := v.Tokenize(text, false, special)
				if err != nil {
					t.Fatal(err)
				}
				if got := v.Detokenize(tokens, true); got != v.normalize(text, special) {
					t.Errorf("%s: %q comes back as %q (special %v)", arch, text, got, special)
				}
			}
		}
	}
}

func TestTextOfSpecialTokensIsPlainTextUnlessParsed(t *testing.T) {
	for _, arch := range []string{synth.Qwen3, synth.GPTOSS, synth.Llama} {
		v := shared(t, arch).Vocab()
		for _, special := range v.SpecialTokens() {
			text := string(v.Piece(special, true))
			if !strings.HasPrefix(text, "<") {
				continue
			}
			for _, around := range []string{text, "a" + text + "b", "<" + text + ">", text + text} {
				tokens, err := v.Tokenize(around, false, false)
				if err != nil {
					t.Fatal(err)
				}
				for _, tok := range tokens {
					if v.Attr(tok)&(AttrControl|AttrUserDefined) != 0 {
						t.Errorf("%s: %q has the special token %d %q", arch, around, tok, v.Piece(tok, true))
					}
				}
				if got := v.Detokenize(tokens, false); got != around {
					t.Errorf("%s: %q comes back as %q", arch, around, got)
				}
			}
			if tokens, _ := v.Tokenize(text, false, true); len(tokens) != 1 || tokens[0] != special {
				t.Errorf("%s: parsed %q is %v, not %d", arch, text, tokens, special)
			}
		}
	}
}

func TestQwenSpecialTokens(t *testing.T) {
	v := shared(t, synth.Qwen3).Vocab()
	for id, want := range map[Token]string{
		151643: "<|endoftext|>", 151644: "<|im_start|>", 151645: "<|im_end|>", 151657: "<tool_call>",
		151658: "</tool_call>", 151665: "<tool_response>", 151666: "</tool_response>", 151667: "<think>", 151668: "</think>",
	} {
		if got, ok := v.Find(want); !ok || got != id {
			t.Errorf("Find(%q) = %d, %v; want %d", want, got, ok, id)
		}
		if control := strings.HasPrefix(want, "<|"); v.IsControl(id) != control {
			t.Errorf("%q: control %v", want, v.IsControl(id))
		}
		hidden := v.IsControl(id)
		if got := string(v.Piece(id, false)); (got == "") != hidden {
			t.Errorf("Piece(%q, special off) = %q", want, got)
		}
	}
	for text, eog := range map[string]bool{"<|im_end|>": true, "<|endoftext|>": true, "<|im_start|>": false, "<tool_call>": false, "Hello": false} {
		if id, ok := v.Find(text); !ok || v.IsEOG(id) != eog {
			t.Errorf("%q (%d): end of generation %v", text, id, v.IsEOG(id))
		}
	}
	if v.eos != 151645 || v.AddBOS() || v.Size() != 151936 {
		t.Errorf("EOS %d, add BOS %v, size %d", v.eos, v.AddBOS(), v.Size())
	}
}

func TestHarmonyEndsAtReturnAndCallOnly(t *testing.T) {
	v := shared(t, synth.GPTOSS).Vocab()
	for text, eog := range map[string]bool{"<|return|>": true, "<|call|>": true, "<|end|>": false, "<|start|>": false, "<|message|>": false, "<|channel|>": false} {
		if id, ok := v.Find(text); !ok || v.IsEOG(id) != eog {
			t.Errorf("%q (%d): end of generation %v", text, id, v.IsEOG(id))
		}
	}
}

func TestInvalidTokensHaveNoText(t *testing.T) {
	v := shared(t, synth.GPTOSS).Vocab()
	for _, tok := range []Token{-1, Token(v.Size()), 1 << 30} {
		if len(v.Piece(tok, true)) != 0 || v.IsEOG(tok) || v.IsControl(tok) || v.Attr(tok) != 0 {
			t.Errorf("token %d means something", tok)
		}
	}
}

// checkText compares the text of tokens with their bytes.
func checkText(t *testing.T, v *Vocab, tokens []Token) {
	t.Helper()
	var raw []byte
	for _, tok := range tokens {
		raw = append(raw, v.Piece(tok, true)...)
	}
	if got, want := v.Detokenize(tokens, true), string([]rune(string(raw))); got != want {
		t.Fatalf("tokens %v: %q, want %q", tokens, got, want)
	}
}

func TestTextOfTokensNeverSplitsACharacter(t *testing.T) {
	v := shared(t, synth.Qwen3).Vocab()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		tokens := make([]Token, rng.IntN(20))
		for i := range tokens {
			tokens[i] = Token(rng.IntN(v.Size()))
			if rng.IntN(2) == 0 {
				tokens[i] = Token(rng.IntN(256)) // single bytes
			}
		}
		checkText(t, v, tokens)
	}
	for _, text := range texts {
		checkText(t, v, tokenize(t, shared(t, synth.Qwen3), text))
	}
}

func FuzzTokenizeRoundTrip(f *testing.F) {
	for _, text := range texts {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Add("\xff\xfe broken \xe6\x97", false)
	f.Add("beyond Unicode \xf5\xb4\xb4\xb4", false)
	v := shared(f, synth.Qwen3).Vocab()
	f.Fuzz(func(t *testing.T, text string, special bool) {
		tokens, err := v.Tokenize(text, false, special)
		if err != nil {
			t.Fatal(err)
		}
		for _, tok := range tokens {
			if !v.valid(tok) {
				t.Fatalf("token %d of %q", tok, text)
			}
			if !special && v.IsControl(tok) {
				t.Fatalf("control token %d in plain %q", tok, text)
			}
		}
		if want := v.normalize(strings.ToValidUTF8(text, "\uFFFD"), special); v.Detokenize(tokens, true) != want {
			t.Fatalf("%q comes back as %q", text, v.Detokenize(tokens, true))
		}
		checkText(t, v, tokens)
	})
}

package llama

import (
	"strings"
	"testing"

	"agentd/llama/internal/gguf"
	"agentd/llama/synth"
)

// TestTextsAreNormalizedAsTheLibraryDoes: the results come from tokenizers 0.23.
func TestTextsAreNormalizedAsTheLibraryDoes(t *testing.T) {
	v := *shared(t, synth.Qwen3).Vocab()
	for name, tc := range map[string]struct {
		text, want string
		special    bool
	}{
		"composed":                                {"caf\u00e9", "caf\u00e9", false},
		"decomposed":                              {"cafe\u0301 A\u030a", "caf\u00e9 \u00c5", false},
		"an angstrom sign":                        {"\u212b", "\u00c5", false},
		"marks in another order":                  {"a\u0301\u0323", "\u1ea1\u0301", false},
		"a mark of Unicode 11 is no mark":         {"a\U00010f46\u0334", "a\U00010f46\u0334", false},
		"a mark of Unicode 14 keeps others apart": {"a\u0898\u0301", "a\u0898\u0301", false},
		"a letter of Unicode 13 is not composed":  {"\U00011935\U00011930", "\U00011935\U00011930", false},
		"a mark after a special token":            {"e\u0301<|im_end|>\u0338", "\u00e9<|im_end|>\u0338", true},
		"the same as text":                        {"e\u0301<|im_end|>\u0338", "\u00e9<|im_end|\u226f", false},
		"40 marks":                                {"a" + strings.Repeat("\u0323\u0301", 20), "\u1ea1" + strings.Repeat("\u0323", 19) + strings.Repeat("\u0301", 20), false},
		"Hangul of a syllable and a letter":       {"\uac00\u11a8", "\uac01", false},
		"one that is never composed":              {"\u0958", "\u0915\u093c", false},
		"a mark at the start":                     {"\u0301e\u0301", "\u0301\u00e9", false},
		"nothing":                                 {"", "", true},
	} {
		if v.nfc = true; v.normalize(tc.text, tc.special) != tc.want {
			t.Errorf("%s: %+q, want %+q", name, v.normalize(tc.text, tc.special), tc.want)
		}
		if v.nfc = false; v.normalize(tc.text, tc.special) != tc.text {
			t.Errorf("%s: changed without a normalizer", name)
		}
	}
	damaged := &Vocab{pieces: "a\xff", offsets: []uint32{0, 1, 2}, special: []Token{0, 1}}
	if got := specialTexts(damaged).String(); got != "a" {
		t.Errorf("special texts, one of which is not UTF-8: %q", got)
	}
	for pre, want := range map[string]bool{"qwen2": true, "qwen35": true, "gpt-4o": false, "llama-bpe": false, "smollm": false} {
		if got := normalizes(map[string]string{"tokenizer.ggml.pre": pre}); got != want {
			t.Errorf("%s: %t", pre, got)
		}
		for kind, want := range map[string]bool{gguf.NormalizerNFC: true, gguf.NormalizerNone: false} {
			if got := normalizes(map[string]string{"tokenizer.ggml.pre": pre, gguf.NormalizerKey: kind}); got != want {
				t.Errorf("%s with %s: %t", pre, kind, got)
			}
		}
	}
}

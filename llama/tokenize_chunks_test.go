package llama

import (
	"slices"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// Each of these overflowed the stack in std::regex, at 26,000 characters.
func TestLongRunsOfOneCharacterAreTokenized(t *testing.T) {
	v := shared(t, synth.GPTOSS).Vocab()
	for name, test := range map[string]struct {
		unit    string
		special bool
	}{
		"letters": {"x", false}, "capitals": {"X", false}, "spaces": {" ", false}, "line breaks": {"\n", false}, "dots": {".", false}, "digits": {"7", false},
		"Chinese": {"日", false}, "accents": {"e\u0301", false}, "letters, where special tokens count": {"x", true},
		"half a special token": {"<|", true}, "a special token": {"<|message|>", true}, "one that is text": {"<|message|>", false},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(test.unit, 30_000/len(test.unit))
			tokens, err := v.Tokenize(text, true, test.special)
			if err != nil {
				t.Fatal(err)
			}
			if v.AddBOS() {
				tokens = tokens[1:]
			}
			if got := v.Detokenize(tokens, true); got != text {
				t.Errorf("%d bytes come back as %d", len(text), len(got))
			}
		})
	}
}

// Chunks end where words and lines end, so the tokens stay the same.
func TestChunksOfWordsHaveTheTokensOfTheWholeText(t *testing.T) {
	for name, unit := range map[string]string{
		"prose":                    "It's a robot's 12th decision, they've said (twice). ",
		"lines":                    "in the kitchen: a cup\n  - on the table\r\n\n\t{\"x\": 1.5}\n",
		"one line with marks":      "kitchen:cup,table/left-hand;",
		"Chinese with punctuation": "机器人在厨房里。它拿着杯子，",
	} {
		text := strings.Repeat(unit, 15_000/len(unit))
		if cut := firstChunk(text, true); cut >= len(text) {
			t.Fatalf("%s: %d bytes are one window", name, len(text))
		}
		for _, arch := range []string{synth.GPTOSS, synth.Qwen3, synth.Llama} {
			v := shared(t, arch).Vocab()
			unchunked := *v
			unchunked.chunks = false
			whole, err := unchunked.Tokenize(text, false, false)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := v.Tokenize(text, false, false); err != nil || !slices.Equal(got, whole) {
				t.Errorf("%s, %s: %d tokens instead of %d, %v", arch, name, len(got), len(whole), err)
			}
		}
	}
}

func TestChunksDoNotCutSpecialTokens(t *testing.T) {
	v := shared(t, synth.Qwen3).Vocab()
	for n := range 12 {
		text := strings.Repeat("机", chunkBytes/3-n) + strings.Repeat("<|im_end|>机器人", 2000)
		got, err := v.Tokenize(text, false, true)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, id := range got {
			if v.IsControl(id) {
				found++
			}
		}
		if found != 2000 {
			t.Errorf("%d special tokens instead of 2,000", found)
		}
	}
}

// Some pre-tokenizers, GPT-2's among them, join the last break of a blank line with what follows.
func TestChunksDoNotEndAfterBlankLines(t *testing.T) {
	text := strings.Repeat("ab ", chunkBytes/3-2) + "cd\n\n" + strings.Repeat("e", chunkBytes)
	if cut := firstChunk(text, true); strings.HasSuffix(text[:cut], "\n") {
		t.Errorf("cut at %d, after a blank line", cut)
	}
}

// Marks may be words of signs, GPT-OSS joins slashes with the break before, and a long word need not end in a chunk.
func TestChunksDoNotEndWithinWords(t *testing.T) {
	for name, c := range map[string]struct {
		text      string
		recursive bool
		want      int
	}{
		"a mark and a sign":          {strings.Repeat("ि।", 3000), false, 18_000},
		"a break and a slash":        {strings.Repeat(".\n/", 5000), false, 15_000},
		"an apostrophe":              {strings.Repeat("a'", 6000), false, 12_000},
		"a long word":                {strings.Repeat("x", 20_000) + " y", false, 20_000},
		"a long word, cut by std":    {strings.Repeat("x", 20_000) + " y", true, chunkBytes},
		"a word beyond all measures": {strings.Repeat("x", wordBytes+9), false, wordBytes},
	} {
		t.Run(name, func(t *testing.T) {
			if got := firstChunk(c.text, c.recursive); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

func TestChunksEndBetweenWordsAndAreNeverEmpty(t *testing.T) {
	long := func(s string) string { return strings.Repeat(s, 2*chunkBytes/len(s)+1) }
	for name, c := range map[string]struct{ text, before, after string }{
		"after a line break":        {long("ab cd") + "", "d", "ab"},
		"a short text is whole":     {"a b", "b", ""},
		"without spaces, at a mark": {long("abc,"), "c", ","},
		"at a character":            {long("日"), "日", "日"},
	} {
		cut := firstChunk(c.text, true)
		if cut <= 0 || cut > chunkBytes && cut < len(c.text) {
			t.Errorf("%s: cut at %d", name, cut)
		}
		if name != "after a line break" && (!strings.HasSuffix(c.text[:cut], c.before) || !strings.HasPrefix(c.text[cut:], c.after)) {
			t.Errorf("%s: cut into %q and %q", name, c.text[max(0, cut-10):cut], c.text[cut:min(len(c.text), cut+10)])
		}
	}
	if text := long("ab\ncd"); !strings.HasSuffix(text[:firstChunk(text, true)], "\n") {
		t.Error("not behind a line break")
	}
	if text := long("ab cd"); !strings.HasPrefix(text[firstChunk(text, true):], " cd") {
		t.Error("not before a space")
	}
}

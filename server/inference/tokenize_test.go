package inference

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"agentd/agent/format"
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
	for arch, pieces := range map[string][]format.Segment{
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
			for _, p := range pieces {
				whole.WriteString(p.Text)
			}
			want, err := m.Vocab().Tokenize(whole.String(), true, true)
			if err != nil {
				t.Fatal(err)
			}
			tok := newTokenizer(m.Vocab())
			for _, round := range []string{"first", "cached"} {
				got, err := tok.tokens(t.Context(), pieces)
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
	got, err := newTokenizer(m.Vocab()).tokens(t.Context(), []format.Segment{{Text: "a<|im_"}, {Text: "end|>b"}})
	if err != nil || slices.Contains(got, end) || len(got) < 3 {
		t.Errorf("got %v, %v", got, err)
	}
	if back := m.Vocab().Detokenize(got, true); back != "a<|im_end|>b" {
		t.Errorf("the text came back as %q", back)
	}
}

// fakeVocab gives one token for each byte and knows one special token.
type fakeVocab struct {
	bos   bool
	calls int
	fail  error
}

const fakeBOS, fakeSpecial llama.Token = 1000, 1001

func (v *fakeVocab) Tokenize(text string, _, _ bool) ([]llama.Token, error) {
	v.calls++
	ids := make([]llama.Token, len(text))
	for i := range text {
		ids[i] = llama.Token(text[i])
	}
	return ids, v.fail
}

func (v *fakeVocab) Find(piece string) (llama.Token, bool) {
	switch piece {
	case "<s>":
		return fakeBOS, true
	case "<x>":
		return fakeSpecial, true
	}
	return 0, false
}
func (v *fakeVocab) AddBOS() bool     { return v.bos }
func (v *fakeVocab) BOS() llama.Token { return fakeBOS }

func TestBOSStandsOnceWhereTheModelWantsIt(t *testing.T) {
	for name, test := range map[string]struct {
		wanted bool
		pieces []format.Segment
		want   []llama.Token
	}{
		"added":              {true, []format.Segment{{Text: "a"}}, []llama.Token{fakeBOS, 'a'}},
		"added to nothing":   {true, nil, []llama.Token{fakeBOS}},
		"already there":      {true, []format.Segment{{Text: "<s>", Special: true}, {Text: "a"}}, []llama.Token{fakeBOS, 'a'}},
		"not wanted":         {false, []format.Segment{{Text: "a"}}, []llama.Token{'a'}},
		"before a special":   {true, []format.Segment{{Text: "<x>", Special: true}}, []llama.Token{fakeBOS, fakeSpecial}},
		"unknown as special": {false, []format.Segment{{Text: "<y>", Special: true}}, []llama.Token{'<', 'y', '>'}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newTokenizer(&fakeVocab{bos: test.wanted}).tokens(t.Context(), test.pieces)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

func TestTokenizationFailuresAreReturned(t *testing.T) {
	fail := errors.New("too long")
	for name, piece := range map[string]format.Segment{"text": {Text: "a"}, "special": {Text: "<y>", Special: true}} {
		tok := newTokenizer(&fakeVocab{fail: fail})
		if _, err := tok.tokens(t.Context(), []format.Segment{piece, {Text: "<x>", Special: true}}); !errors.Is(err, fail) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTokenCacheStaysWithinItsBytes(t *testing.T) {
	var c tokenCache
	text := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", tokenCacheBytes/16)) }
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() { c.put(text(i), []llama.Token{llama.Token(i)}) })
	}
	wg.Wait()
	c.put(text(100), []llama.Token{100})
	c.put(text(100), []llama.Token{101}) // the second of two at once loses
	if got, ok := c.get(text(100)); !ok || got[0] != 100 {
		t.Errorf("the newest entry is %v, %v", got, ok)
	}
	sum := 0
	for e := c.recent.Front(); e != nil; e = e.Next() {
		sum += len(e.Value.(*tokenEntry).text)
	}
	if sum != c.bytes || c.bytes > tokenCacheBytes || len(c.entries) != c.recent.Len() || len(c.entries) < 8 {
		t.Errorf("%d entries (%d in the list) of %d bytes, counted as %d", len(c.entries), c.recent.Len(), sum, c.bytes)
	}
	c.put(strings.Repeat("y", tokenCacheBytes/8+1), nil)
	if _, ok := c.get(text(100)); !ok {
		t.Error("one long text emptied the cache")
	}
}

func TestACachedTextKeepsNothingOfItsPrompt(t *testing.T) {
	prompt := strings.Repeat("a", 4*tokenCacheMin)
	var c tokenCache
	c.put(prompt[:tokenCacheMin], []llama.Token{1})
	for key, e := range c.entries {
		for _, kept := range []string{key, e.Value.(*tokenEntry).text} {
			if unsafe.StringData(kept) == unsafe.StringData(prompt) {
				t.Error("the whole prompt stays in memory")
			}
		}
	}
	if _, ok := c.get(prompt[:tokenCacheMin]); !ok {
		t.Error("it is not there")
	}
}

func TestNothingIsTokenizedForACallerThatLeft(t *testing.T) {
	v := &fakeVocab{}
	tok := newTokenizer(v)
	ctx, cancel := context.WithCancel(t.Context())
	for range cap(tok.slots) {
		tok.slots <- struct{}{} // others tokenize long texts
	}
	got := make(chan error)
	go func() {
		_, err := tok.tokens(ctx, []format.Segment{{Text: "a"}})
		got <- err
	}()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("while it waited: %v", err)
	}
	for range cap(tok.slots) {
		<-tok.slots
	}
	for range 20 { // of a free slot and an ended context select takes either
		if _, err := tok.tokens(ctx, []format.Segment{{Text: "a"}}); !errors.Is(err, context.Canceled) {
			t.Fatalf("before it began: %v", err)
		}
	}
	if v.calls != 0 {
		t.Errorf("%d texts were tokenized", v.calls)
	}
}

func TestShortTextsAreNotCached(t *testing.T) {
	v := &fakeVocab{}
	tok := newTokenizer(v)
	long := strings.Repeat("a", tokenCacheMin)
	for range 2 {
		for _, s := range []string{"short", long} {
			if _, err := tok.tokens(t.Context(), []format.Segment{{Text: s}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if v.calls != 3 { // short twice, long once
		t.Errorf("%d calls", v.calls)
	}
}

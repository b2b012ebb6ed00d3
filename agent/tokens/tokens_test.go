package tokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/scheduler/generation"
)

// fakeVocab gives one token for each byte and knows one special token.
type fakeVocab struct {
	bos   bool
	calls int
	fail  error
}

const fakeBOS, fakeSpecial generation.Token = 1000, 1001

func (v *fakeVocab) Tokenize(text string, _, _ bool) ([]generation.Token, error) {
	v.calls++
	ids := make([]generation.Token, len(text))
	for i := range text {
		ids[i] = generation.Token(text[i])
	}
	return ids, v.fail
}

func (v *fakeVocab) Find(piece string) (generation.Token, bool) {
	switch piece {
	case "<s>":
		return fakeBOS, true
	case "<x>":
		return fakeSpecial, true
	}
	return 0, false
}
func (v *fakeVocab) AddBOS() bool          { return v.bos }
func (v *fakeVocab) BOS() generation.Token { return fakeBOS }
func (v *fakeVocab) LongestPiece() int     { return 1 }
func (v *fakeVocab) Size() int             { return int(fakeSpecial) + 1 }

func (v *fakeVocab) Detokenize(ids []generation.Token, _ bool) string { return fmt.Sprint(ids) }

func TestBOSIsAddedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		wanted   bool
		segments []format.Segment
		want     []generation.Token
	}{
		"added":              {true, []format.Segment{{Text: "a"}}, []generation.Token{fakeBOS, 'a'}},
		"added to nothing":   {true, nil, []generation.Token{fakeBOS}},
		"already there":      {true, []format.Segment{{Text: "<s>", Special: true}, {Text: "a"}}, []generation.Token{fakeBOS, 'a'}},
		"not wanted":         {false, []format.Segment{{Text: "a"}}, []generation.Token{'a'}},
		"before a special":   {true, []format.Segment{{Text: "<x>", Special: true}}, []generation.Token{fakeBOS, fakeSpecial}},
		"unknown as special": {false, []format.Segment{{Text: "<y>", Special: true}}, []generation.Token{'<', 'y', '>'}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := New(&fakeVocab{bos: test.wanted}).Tokens(t.Context(), test.segments)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

func TestTokenizationFailuresAreReturned(t *testing.T) {
	fail := errors.New("too long")
	for name, segment := range map[string]format.Segment{"text": {Text: "a"}, "special": {Text: "<y>", Special: true}} {
		tok := New(&fakeVocab{fail: fail})
		if _, err := tok.Tokens(t.Context(), []format.Segment{segment, {Text: "<x>", Special: true}}); !errors.Is(err, fail) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOneLongTextDoesNotEmptyTheCache(t *testing.T) {
	v := &fakeVocab{}
	tok := New(v)
	short := strings.Repeat("x", tokenCacheMin)
	for _, text := range []string{short, strings.Repeat("y", tokenCacheBytes/8+1)} {
		if _, err := tok.Tokens(t.Context(), []format.Segment{{Text: text}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := tok.cache.Get(short); !ok {
		t.Error("the short text is gone")
	}
	if _, ok := tok.cache.Get(strings.Repeat("y", tokenCacheBytes/8+1)); ok {
		t.Error("the long text is kept")
	}
}

func TestCancelledCallTokenizesNothing(t *testing.T) {
	v := &fakeVocab{}
	tok := New(v)
	ctx, cancel := context.WithCancel(t.Context())
	for range cap(tok.slots) {
		tok.slots <- struct{}{} // others tokenize long texts
	}
	got := make(chan error)
	go func() {
		_, err := tok.Tokens(ctx, []format.Segment{{Text: "a"}})
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
		if _, err := tok.Tokens(ctx, []format.Segment{{Text: "a"}}); !errors.Is(err, context.Canceled) {
			t.Fatalf("before it began: %v", err)
		}
	}
	if v.calls != 0 {
		t.Errorf("%d texts were tokenized", v.calls)
	}
}

func TestShortTextsAreNotCached(t *testing.T) {
	v := &fakeVocab{}
	tok := New(v)
	long := strings.Repeat("a", tokenCacheMin)
	for range 2 {
		for _, s := range []string{"short", long} {
			if _, err := tok.Tokens(t.Context(), []format.Segment{{Text: s}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if v.calls != 3 { // short twice, long once
		t.Errorf("%d calls", v.calls)
	}
}

package llama

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/llama/synth"
)

func TestContextOptionErrors(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	for _, tc := range []struct {
		want string
		opts []ContextOption
	}{
		{"size 0", []ContextOption{SetContext(0)}},
		{"size -5", []ContextOption{SetContext(-5)}},
		{"batch 0", []ContextOption{SetBatch(0)}},
		{"micro-batch -1", []ContextOption{SetMicroBatch(-1)}},
		{"sequences 257", []ContextOption{SetMaxSequences(257)}},
		{"sequences 0", []ContextOption{SetMaxSequences(0)}},
		{"outputs -1", []ContextOption{SetMaxOutputs(-1)}},
		{"threads 0", []ContextOption{SetThreads(0, 0)}},
		{"threads 5000", []ContextOption{SetThreads(5000, 1)}},
		{`KV type "f17"`, []ContextOption{SetKVType("f17")}},
		{"needs flash attention", []ContextOption{SetKVType("q8_0"), SetFlashAttention(false)}},
	} {
		t.Run(tc.want, func(t *testing.T) {
			c, err := m.NewContext(tc.opts...)
			if err == nil {
				c.Close()
				t.Fatal("it was accepted")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not say %q", err, tc.want)
			}
		})
	}
}

func TestContextTellsItsSizes(t *testing.T) {
	c := newContext(t, shared(t, synth.GPTOSS), SetContext(512), SetBatch(32), SetMaxSequences(7), SetMaxOutputs(3))
	if c.Size() != 512 || c.BatchSize() != 32 || c.MaxSequences() != 7 || c.MaxOutputs() != 3 {
		t.Errorf("size %d, batch %d, sequences %d, outputs %d", c.Size(), c.BatchSize(), c.MaxSequences(), c.MaxOutputs())
	}
}

func TestEveryKVTypeDecodes(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	for _, name := range KVTypes() {
		t.Run(name, func(t *testing.T) {
			c := newContext(t, m, SetKVType(name))
			feed(t, c, 0, tokenize(t, m, "the and"))
		})
	}
}

func TestDecodeRefusesInvalidBatches(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	c := newContext(t, m, SetBatch(4), SetMaxSequences(2), SetMaxOutputs(2))
	feed(t, c, 0, tokenize(t, m, "the and")) // sequence 0 has positions 0 and 1
	end := lastPos(c, 0)
	size := Token(m.Vocab().Size())
	for _, tc := range []struct {
		rule, want string
		rows       []Row
	}{
		{"an empty batch", "empty", nil},
		{"more tokens than the context takes", "5 tokens", []Row{{1, 0, 1, false}, {1, 1, 1, false}, {1, 2, 1, false}, {1, 3, 1, false}, {1, 4, 1, false}}},
		{"more outputs than the context takes", "3 outputs", []Row{{1, 0, 1, true}, {1, 1, 1, true}, {1, 2, 1, true}}},
		{"a token beyond the vocabulary", "token 0 of the batch is", []Row{{size, 0, 1, true}}},
		{"a sequence beyond the context's", "in sequence 2", []Row{{1, 0, 2, true}}},
		{"a negative token", "batch: token -1", []Row{{1, 0, 1, true}, {-1, 1, 1, true}}},
		{"a negative position", "batch: position -1", []Row{{1, end + 1, 0, true}, {1, -1, 1, true}}},
		{"a negative sequence", "batch: sequence -1 is not from 0", []Row{{1, 0, 1, true}, {1, 0, -1, true}}},
		{"a sequence beyond the largest", "is not from 0 to 255", []Row{{1, 0, 1, true}, {1, 0, MaxSequences, true}}},
		{"a gap after the memory", "goes on at position", []Row{{1, end + 2, 0, true}}},
		{"a position that is in the memory", "goes on at position", []Row{{1, end, 0, true}}},
		{"a gap within the batch", "after 0", []Row{{1, 0, 1, false}, {1, 2, 1, true}}},
		{"a position twice in the batch", "after 0", []Row{{1, 0, 1, false}, {1, 0, 1, true}}},
		{"positions backwards", "after 1", []Row{{1, 1, 1, false}, {1, 0, 1, true}}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			err := c.Decode(tc.rows)
			if !errors.Is(err, ErrInvalidBatch) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Decode: %v, want %q", err, tc.want)
			}
			if lastPos(c, 0) != end || lastPos(c, 1) != -1 {
				t.Error("the memory has changed")
			}
			if _, err := c.Logits(0); !errors.Is(err, ErrNoLogits) {
				t.Errorf("Logits: %v", err)
			}
		})
	}
}

func TestLogitsOfOutputsOnly(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	c := newContext(t, m)
	if _, err := c.Logits(0); !errors.Is(err, ErrNoLogits) {
		t.Errorf("before any Decode: %v", err)
	}
	outputs := []bool{false, true, false, true, false}
	b := make([]Row, len(outputs))
	for i, out := range outputs {
		b[i] = Row{Token(65 + i), Pos(i), 0, out}
	}
	if err := c.Decode(b); err != nil {
		t.Fatal(err)
	}
	for i, out := range outputs {
		row, err := c.Logits(i)
		if out != (err == nil) || !out && !errors.Is(err, ErrNoLogits) {
			t.Errorf("Logits(%d): %v", i, err)
		}
		if out && len(row) != m.Vocab().Size() {
			t.Errorf("row %d has %d values", i, len(row))
		}
	}
	for _, i := range []int{-1, len(outputs), 1 << 30} {
		if _, err := c.Logits(i); !errors.Is(err, ErrNoLogits) {
			t.Errorf("Logits(%d): %v", i, err)
		}
	}
	// the rows equal the rows of a decode without the other outputs
	row, _ := c.Logits(3)
	fresh := newContext(t, m)
	want := feed(t, fresh, 0, []Token{65, 66, 67, 68})
	if d := maxDiff(row, want); d > 1e-3 {
		t.Errorf("row 3 differs by %g", d)
	}
}

func TestFullMemoryIsErrNoKVSlotAndRecovers(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	c := newContext(t, m, SetContext(256), SetBatch(64))
	b := make([]Row, 64)
	fill := func(seq SeqID, from Pos) error {
		for i := range b {
			b[i] = Row{65, from + Pos(i), seq, i == 63}
		}
		return c.Decode(b)
	}
	for i := range c.Size() / 64 {
		if err := fill(0, Pos(i*64)); err != nil {
			t.Fatal(err)
		}
	}
	end := lastPos(c, 0)
	if err := fill(1, 0); !errors.Is(err, ErrNoKVSlot) {
		t.Fatalf("Decode into a full memory: %v", err)
	}
	if lastPos(c, 0) != end || lastPos(c, 1) != -1 {
		t.Error("the memory has changed")
	}
	if err := c.Memory().Remove(0, 128, -1); err != nil {
		t.Fatal(err)
	}
	if err := fill(1, 0); err != nil {
		t.Errorf("Decode after Remove: %v", err)
	}
}

func TestAbort(t *testing.T) {
	m := shared(t, synth.Qwen3)
	c := newContext(t, m, SetContext(2048), SetBatch(2048), SetMicroBatch(16))
	b := make([]Row, c.BatchSize())
	for i := range b {
		b[i] = Row{65, Pos(i), 0, i == len(b)-1}
	}
	c.Abort()
	if err := c.Decode(b); !errors.Is(err, ErrAborted) {
		t.Fatalf("Decode after Abort: %v", err)
	}
	if end := lastPos(c, 0); end != -1 {
		t.Errorf("the memory ends at %d", end)
	}

	// in the middle of the computation; ErrAborted says it all
	var out lockedBuffer
	if err := Init(zerolog.New(&out).Level(zerolog.InfoLevel)); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(2*time.Millisecond, c.Abort)
	err := c.Decode(b)
	if Init(zerolog.Nop()); err != nil && !errors.Is(err, ErrAborted) || out.String() != "" {
		t.Errorf("Decode with Abort: %v, logged %q", err, out.String())
	}
	if err := c.Memory().Remove(0, 0, -1); err != nil {
		t.Fatal(err)
	}

	// from another goroutine, at any moment of the computation
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				c.Abort()
				runtime.Gosched()
			}
		}
	})
	err = c.Decode(b)
	close(stop)
	wg.Wait()
	if err != nil && !errors.Is(err, ErrAborted) {
		t.Fatalf("Decode: %v", err)
	}
	// the kept cells are a prefix that can be continued
	if err := c.Memory().Remove(0, 0, -1); err != nil {
		t.Fatal(err)
	}
	err = c.Decode(b)
	if errors.Is(err, ErrAborted) { // an abort that came after the decode above
		err = c.Decode(b)
	}
	if err != nil {
		t.Errorf("Decode after an abort: %v", err)
	}
}

func TestCloseWaitsForTheOtherGoroutine(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	for range 20 {
		c := newContext(t, m)
		var wg sync.WaitGroup
		wg.Go(func() {
			for pos := Pos(0); pos < 200; pos++ {
				if err := c.Decode([]Row{{65, pos, 0, true}}); err != nil {
					if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrAborted) {
						t.Errorf("Decode: %v", err)
					}
					return
				}
				if _, err := c.Logits(0); err != nil && !errors.Is(err, ErrClosed) {
					t.Errorf("Logits: %v", err)
				}
			}
		})
		wg.Go(func() { c.Abort() })
		wg.Go(func() {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		wg.Wait()
	}
}

func TestDecodeAndSampleDoNotAllocate(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	c := newContext(t, m)
	b := []Row{{65, 0, 0, true}}
	greedy := newSampler(t, m, SamplerConfig{})
	drawn := newSampler(t, m, SamplerConfig{Temperature: 1, TopK: 40, TopP: 0.9})
	constrained := newSampler(t, m, SamplerConfig{Grammar: `root ::= [a-z ]*`})
	step := func() {
		if err := c.Decode(b); err != nil {
			t.Fatal(err)
		}
		b[0].Pos++
		row, err := c.Logits(0)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Sampler{greedy, drawn, constrained} {
			if _, err := s.Sample(row); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := testing.AllocsPerRun(50, step); n != 0 {
		t.Errorf("a step allocates %v times", n)
	}
}

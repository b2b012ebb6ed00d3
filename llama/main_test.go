package llama

import (
	"errors"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"agentd/llama/synth"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(crashVariable); kind != "" {
		crash(kind)
	}
	if file := os.Getenv(waitsVariable); file != "" {
		printWaits(file)
		return
	}
	loadTestDevice()
	goleak.VerifyTestMain(m)
}

// modelPath is the file of an architecture's tiny model.
func modelPath(t testing.TB, arch string) string {
	t.Helper()
	path, err := synth.Tiny("", arch)
	if err != nil {
		t.Fatalf("make the tiny model: %v", err)
	}
	return path
}

var sharedModels = struct {
	sync.Mutex
	byArch map[string]*Model
}{byArch: map[string]*Model{}}

// shared is a model of the architecture that all tests use and none frees.
func shared(t testing.TB, arch string) *Model {
	t.Helper()
	sharedModels.Lock()
	defer sharedModels.Unlock()
	m := sharedModels.byArch[arch]
	if m == nil {
		var err error
		if m, err = New(modelPath(t, arch), onTestDevice()...); err != nil {
			t.Fatal(err)
		}
		sharedModels.byArch[arch] = m
	}
	return m
}

// private is a model for one test, which must free it.
func private(t testing.TB, opts ...ModelOption) *Model {
	t.Helper()
	m, err := New(modelPath(t, synth.GPTOSS), append(onTestDevice(), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newContext(t testing.TB, m *Model, opts ...ContextOption) *Context {
	t.Helper()
	c, err := m.NewContext(append([]ContextOption{SetContext(512), SetBatch(64), SetMaxSequences(4), SetThreads(1, 1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func newSampler(t testing.TB, m *Model, cfg SamplerConfig) *Sampler {
	t.Helper()
	s, err := m.NewSampler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func tokenize(t testing.TB, m *Model, text string) []Token {
	t.Helper()
	tokens, err := m.Vocab().Tokenize(text, false, true)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// lastPos is the last position of a sequence.
func lastPos(c *Context, seq SeqID) Pos {
	_, last := c.Memory().Range(seq)
	return last
}

// feed decodes tokens at the end of seq and returns a copy of the last row.
func feed(t testing.TB, c *Context, seq SeqID, tokens []Token) []float32 {
	t.Helper()
	b := make([]Row, len(tokens))
	start := lastPos(c, seq) + 1
	for i, tok := range tokens {
		b[i] = Row{tok, start + Pos(i), seq, i == len(tokens)-1}
	}
	if err := c.Decode(b); err != nil {
		t.Fatal(err)
	}
	row, err := c.Logits(len(tokens) - 1)
	if err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), row...)
}

// accepts reports whether a grammar accepts a whole text, token by token.
func accepts(t testing.TB, m *Model, gbnf, text string) bool {
	t.Helper()
	s, err := m.NewSampler(SamplerConfig{Grammar: gbnf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tok := range append(tokenize(t, m, text), m.vocab.eos) {
		if err := s.Accept(tok); errors.Is(err, ErrRejected) {
			return false
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return true
}

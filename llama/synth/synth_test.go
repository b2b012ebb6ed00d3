package synth_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"agentd/llama"
	"agentd/llama/synth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var architectures = []string{synth.Qwen2, synth.Qwen3, synth.Qwen3MoE, synth.Qwen35, synth.GPTOSS, synth.Llama}

// small is a Spec with the small vocabulary, which is quick to write and load.
func small(t testing.TB, arch string) synth.Spec {
	t.Helper()
	spec, err := synth.Preset("tiny", arch)
	if err != nil {
		t.Fatal(err)
	}
	spec.Small = true
	return spec
}

func write(t testing.TB, spec synth.Spec) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := synth.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t testing.TB, path string) *llama.Model {
	t.Helper()
	m, err := llama.New(path)
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

// generate is a greedy answer of at most n tokens.
func generate(t testing.TB, m *llama.Model, prompt string, n int) []llama.Token {
	t.Helper()
	c, err := m.NewContext(llama.SetContext(512), llama.SetThreads(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := m.NewSampler(llama.SamplerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	next, err := m.Vocab().Tokenize(prompt, false, true)
	if err != nil {
		t.Fatal(err)
	}
	var out []llama.Token
	for pos := llama.Pos(0); len(out) < n; {
		b := make([]llama.Row, len(next))
		for i, tok := range next {
			b[i] = llama.Row{Token: tok, Pos: pos, Output: i == len(next)-1}
			pos++
		}
		if err := c.Decode(b); err != nil {
			t.Fatal(err)
		}
		row, err := c.Logits(len(next) - 1)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := s.Sample(row)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, tok)
		if m.Vocab().IsEOG(tok) {
			break
		}
		next = []llama.Token{tok}
	}
	return out
}

func TestEveryArchitectureAndTypeLoadsAndDecodes(t *testing.T) {
	for _, arch := range architectures {
		for _, typ := range []string{"f32", "f16", "bf16", "q8_0", "mxfp4"} {
			t.Run(arch+" "+typ, func(t *testing.T) {
				spec := small(t, arch)
				spec.Type = typ
				m := load(t, write(t, spec))
				if got := m.Info().Architecture; got != arch {
					t.Errorf("architecture %q", got)
				}
				if out := generate(t, m, "the robot", 8); len(out) == 0 {
					t.Error("nothing was generated")
				}
			})
		}
	}
}

func TestTheSameSeedWritesTheSameFile(t *testing.T) {
	for _, arch := range architectures {
		spec := small(t, arch)
		read := func() []byte {
			data, err := os.ReadFile(write(t, spec))
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		first := read()
		if !bytes.Equal(first, read()) {
			t.Errorf("%s: two files of one seed differ", arch)
		}
		spec.Seed++
		if bytes.Equal(first, read()) {
			t.Errorf("%s: two seeds give one file", arch)
		}
	}
}

func TestOutputIsNotDegenerate(t *testing.T) {
	for _, arch := range architectures {
		t.Run(arch, func(t *testing.T) {
			spec := small(t, arch)
			spec.Bias = nil // nothing ends the text
			m := load(t, write(t, spec))
			distinct := map[llama.Token]bool{}
			byPrompt := map[string]bool{}
			for _, prompt := range []string{"the robot", "a door", "{}", "1 2 3"} {
				out := generate(t, m, prompt, 40)
				for _, tok := range out {
					distinct[tok] = true
				}
				byPrompt[m.Vocab().Detokenize(out, true)] = true
			}
			if len(distinct) < 12 || len(byPrompt) < 3 {
				t.Errorf("%d distinct tokens, %d distinct answers to 4 prompts: %q", len(distinct), len(byPrompt), slices.Collect(maps.Keys(byPrompt)))
			}
		})
	}
}

func TestBiasMovesLogitsOfItsTokens(t *testing.T) {
	spec := small(t, synth.Qwen3)
	spec.Bias = map[string]float32{"<|im_end|>": 60}
	m := load(t, write(t, spec))
	out := generate(t, m, "the robot", 5)
	if len(out) != 1 || !m.Vocab().IsEOG(out[0]) {
		t.Errorf("a model that wants to stop writes %q", m.Vocab().Detokenize(out, true))
	}
}

func TestTinyModelsEndTheirTexts(t *testing.T) {
	m := load(t, tiny(t, synth.Qwen3))
	ended := 0
	for _, prompt := range []string{"the robot", "a door", "Hello", "1 2 3", "{}", "yes", "no", "who?"} {
		if out := generate(t, m, prompt, 128); m.Vocab().IsEOG(out[len(out)-1]) {
			ended++
		}
	}
	if ended < 4 {
		t.Errorf("%d of 8 greedy texts end within 128 tokens", ended)
	}
}

func tiny(t testing.TB, arch string) string {
	t.Helper()
	path, err := synth.Tiny("", arch)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTinyIsTinyAndWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	paths := make([]string, 4)
	for i := range paths {
		wg.Go(func() {
			path, err := synth.Tiny(dir, synth.GPTOSS)
			if err != nil {
				t.Error(err)
			}
			paths[i] = path
		})
	}
	wg.Wait()
	if slices.Min(paths) != slices.Max(paths) {
		t.Errorf("paths %q", paths)
	}
	before, err := os.Stat(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := synth.Tiny(dir, synth.GPTOSS); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(paths[0])
	if err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("it was written again: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("files %v", left)
	}
	if info, err := os.Stat(tiny(t, synth.Qwen3)); err != nil || info.Size() > 20<<20 {
		t.Errorf("the tiny qwen3 has %d bytes, %v", info.Size(), err)
	}
}

func TestCachedTellsSpecsApart(t *testing.T) {
	dir := t.TempDir()
	spec := small(t, synth.Qwen3)
	first, err := synth.Cached(dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.ChatTemplate = "{{ 1 }}"
	second, err := synth.Cached(dir, spec)
	if err != nil || first == second {
		t.Errorf("%q and %q, %v", first, second, err)
	}
	if got := load(t, second).Metadata()["tokenizer.chat_template"]; got != spec.ChatTemplate {
		t.Errorf("template %q", got)
	}
}

func TestSpecErrors(t *testing.T) {
	for _, tc := range []struct {
		want   string
		arch   string
		change func(*synth.Spec)
	}{
		{`architecture "mamba"`, synth.Qwen3, func(s *synth.Spec) { s.Arch = "mamba" }},
		{`type "q3"`, synth.Qwen3, func(s *synth.Spec) { s.Type = "q3" }},
	} {
		t.Run(tc.want, func(t *testing.T) {
			spec := small(t, tc.arch)
			tc.change(&spec)
			path := filepath.Join(t.TempDir(), "m.gguf")
			if err := synth.Write(path, spec); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not say %q", err, tc.want)
			}
			if _, err := os.Stat(path); err == nil {
				t.Error("a file was written")
			}
		})
	}
	if _, err := synth.Preset("huge", synth.Qwen3); err == nil {
		t.Error("an unknown preset is no error")
	}
}

func TestPresetsHaveRealShapes(t *testing.T) {
	for _, c := range []struct {
		size, arch string
		shape      [6]int // layers, embedding, FFN, heads, KV heads, head dimension
	}{
		{"0.6b", synth.Qwen3, [6]int{28, 1024, 3072, 16, 8, 128}},
		{"8b", synth.Qwen3, [6]int{36, 4096, 12288, 32, 8, 128}},
		{"20b", synth.GPTOSS, [6]int{24, 2880, 2880, 64, 8, 64}},
	} {
		s, err := synth.Preset(c.size, c.arch)
		if err != nil {
			t.Fatal(err)
		}
		if got := [6]int{s.Layers, s.Embedding, s.FFN, s.Heads, s.KVHeads, s.HeadDim}; got != c.shape {
			t.Errorf("%s: %v, want %v", c.size, got, c.shape)
		}
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"agentd/llama"
	"agentd/llama/synth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// expected is a sample that a random model meets exactly, and its file.
func expected(t *testing.T) (sample, string) {
	t.Helper()
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	spec.Small = true
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := synth.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	m, err := llama.New(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	s := sample{Texts: [][]piece{{{"s", "<|im_start|>"}, {"t", "user\nGo."}, {"s", "<|im_end|>"}}, {{"t", "\nDone"}}}, Rows: []int{2, 4}}
	if s.IDs, err = s.tokenize(m.Vocab()); err != nil {
		t.Fatal(err)
	}
	if s.Logits, err = s.decode(m); err != nil {
		t.Fatal(err)
	}
	return s, path
}

func TestOnlyEqualTokensAndCloseLogitsPass(t *testing.T) {
	for _, tc := range []struct {
		rule, want string
		change     func(*sample)
	}{
		{"what was computed here passes", "", func(*sample) {}},
		{"a small difference passes", "", func(s *sample) { s.Logits[1][7] += 0.01 }},
		{"a large one does not", "more than", func(s *sample) { s.Logits[1][7] += 0.5 }},
		{"another token is told", "token 1 differs", func(s *sample) { s.IDs[1]++ }},
		{"a missing token is told", "differs", func(s *sample) { s.IDs = s.IDs[:len(s.IDs)-1] }},
		{"an unknown special token is reported", "is not a token", func(s *sample) { s.Texts[0][0][1] = "<|no|>" }},
		{"rows without logits are told", "2 rows and 1 lists", func(s *sample) { s.Logits = s.Logits[:1] }},
		{"another vocabulary is told", "logits, expected", func(s *sample) { s.Logits[0] = s.Logits[0][1:] }},
		{"nothing compared is no success", "0 rows", func(s *sample) { s.Rows, s.Logits = nil, nil }},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			s, model := expected(t)
			tc.change(&s)
			data, err := json.Marshal([]sample{s})
			if err != nil {
				t.Fatal(err)
			}
			expect := filepath.Join(t.TempDir(), "expect.json")
			if err := os.WriteFile(expect, data, 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = run([]string{"--model", model, "--expect", expect}, &out)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, printed %q", err, out.String())
			}
		})
	}
}

func TestNotANumberIsTheLargestDistance(t *testing.T) {
	nan := float32(math.NaN())
	if d, err := distance([][]float32{{nan, 5}}, [][]float32{{1, 1}}); err != nil || !math.IsNaN(d) {
		t.Errorf("%v, %v", d, err)
	}
}

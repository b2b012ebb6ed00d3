package llama

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"testing"

	"agentd/llama/synth"
)

// A list of children has the odds of the tokens that are drawn, and all of them.
func TestChildrenAreWhatSampleDraws(t *testing.T) {
	m := shared(t, synth.Qwen3)
	grammars := map[string]string{"no grammar": "", "few tokens": `root ::= "ab" [a-z]+ | "ac" | "b" [0-9]+`, "most": `root ::= [^aeiou]+`}
	settings := map[string]SamplerConfig{
		"temperature": {Temperature: 0.7},
		"hot":         {Temperature: 1.5},
		"top-k":       {Temperature: 1, TopK: 12},
		"top-p":       {Temperature: 1, TopP: 0.8},
		"min-p":       {Temperature: 0.9, MinP: 0.05},
		"all":         {Temperature: 0.6, TopK: 20, TopP: 0.95, MinP: 0.01, SuppressControl: true},
	}
	for named, grammar := range grammars {
		for name, cfg := range settings {
			t.Run(named+", "+name, func(t *testing.T) {
				cfg.Grammar, cfg.Score = grammar, true
				row := peaked(randomRow(m, 7))
				first, err := m.NewSampler(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer first.Close()
				list, _, err := first.Children(row, 1e-5, nil)
				if err != nil {
					t.Fatal(err)
				}
				odds, sum := map[Token]float64{}, 0.0
				for _, c := range list {
					if _, twice := odds[c.Token]; twice {
						t.Errorf("token %d is listed twice", c.Token)
					}
					odds[c.Token] = math.Exp(float64(c.Logprob))
					sum += odds[c.Token]
				}
				if math.Abs(sum-1) > 1e-4 {
					t.Errorf("the probabilities of %d tokens sum up to %g", len(list), sum)
				}
				for seed := range uint32(40) {
					s, err := first.CloneSeed(seed)
					if err != nil {
						t.Fatal(err)
					}
					token := mustSample(t, s, row)
					want := math.Exp(s.Score().Drawn)
					if got := odds[token]; math.Abs(got-want) > 1e-3*want+1e-5 {
						t.Errorf("token %d is listed with %g and drawn with %g", token, got, want)
					}
					_ = s.Close()
				}
			})
		}
	}
}

func TestChildrenLeaveOutAtMostTheShare(t *testing.T) {
	m := shared(t, synth.Qwen3)
	row := peaked(randomRow(m, 7))
	s := newSampler(t, m, SamplerConfig{Temperature: 1, Score: true})
	sorted := func(list []Child) {
		slices.SortFunc(list, func(a, b Child) int {
			return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.Token, b.Token))
		})
	}
	all, rest, err := s.Children(row, 1e-5, nil)
	if err != nil || rest > 1e-5 {
		t.Fatalf("rest %g, %v", rest, err)
	}
	sorted(all)
	last := len(all)
	for _, share := range []float64{1e-3, 0.1} {
		list, rest, err := s.Children(row, share, nil)
		if err != nil {
			t.Fatal(err)
		}
		sorted(list)
		missing := 0.0
		for _, c := range all[len(list):] {
			missing += math.Exp(float64(c.Logprob))
		}
		if len(list) >= last || rest > share || missing/(1-missing) > rest+1e-5 {
			t.Errorf("share %g: %d of %d tokens, rest %g, missing %g", share, len(list), len(all), rest, missing)
		}
		for i, c := range list {
			if c.Token != all[i].Token || c.Logprob < all[i].Logprob || c.Logprob > all[i].Logprob+float32(2*share) {
				t.Errorf("share %g: token %d is %+v instead of %+v", share, i, c, all[i])
			}
		}
		last = len(list)
	}
}

// A sampler keeps the set of admitted tokens while its grammar stays in a place. The second grammar has so many places
// that the grammar forgets them.
func TestLongTextIsSampledLikeItsEndAlone(t *testing.T) {
	m := shared(t, synth.Qwen3)
	rows := refusedRows(t, m)
	for name, grammar := range map[string]string{
		"loops":  `root ::= ([^"\\\x00-\x1F]* "\"" [a-zA-Z ]* "\\")*`,
		"counts": `root ::= ([^"\\\x00-\x1F]{0,900} "\"" [a-zA-Z ]{0,900} "\\")*`,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := SamplerConfig{Temperature: 0.7, Score: true, Grammar: grammar, Suppress: m.Vocab().SpecialTokens()}
			s := newSampler(t, m, cfg)
			var text []Token
			for i := range 150 {
				row := rows[i*7%len(rows)]
				alone := newSampler(t, m, cfg)
				for _, token := range text {
					if err := alone.Accept(token); err != nil {
						t.Fatal(err)
					}
				}
				next, err := s.Clone() // takes over the set of s
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range []*Sampler{s, alone} {
					list, rest, err := c.Children(row, 1e-3, nil)
					if err != nil || len(list) == 0 || rest > 1e-3 {
						t.Fatalf("token %d: %d children, rest %g, %v", i, len(list), rest, err)
					}
				}
				want := mustSample(t, alone, row)
				for _, c := range []*Sampler{s, next} {
					if got := mustSample(t, c, row); got != want {
						t.Fatalf("token %d is %d, alone %d", i, got, want)
					}
					if got, want := c.Score().Drawn, alone.Score().Drawn; math.Abs(got-want) > 1e-4 {
						t.Fatalf("token %d has the logprob %g, alone %g", i, got, want)
					}
				}
				text = append(text, want)
				if err := errors.Join(s.Close(), alone.Close()); err != nil {
					t.Fatal(err)
				}
				s = next
			}
		})
	}
}

func TestChildrenRefusesSamplersAndRowsOfOtherKinds(t *testing.T) {
	m := shared(t, synth.Qwen3)
	row := randomRow(m, 1)
	for name, cfg := range map[string]SamplerConfig{"greedy": {Score: true}, "no scores": {Temperature: 1}} {
		if _, _, err := newSampler(t, m, cfg).Children(row, 1e-5, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s := newSampler(t, m, SamplerConfig{Temperature: 1, Score: true})
	if _, _, err := s.Children(row[1:], 1e-5, nil); err == nil {
		t.Error("short row: no error")
	}
	nan := float32(math.NaN())
	for i := range row {
		row[i] = nan
	}
	if _, _, err := s.Children(row, 1e-5, nil); err == nil {
		t.Error("row without a number: no error")
	}
}

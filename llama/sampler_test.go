package llama

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/llama/synth"
)

func randomRow(m *Model, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	row := make([]float32, m.Vocab().Size())
	for i := range row {
		row[i] = float32(rng.NormFloat64() * 4)
	}
	return row
}

// peaked makes a few tokens of a row likely, so that all of them are drawn.
func peaked(row []float32) []float32 {
	for i := range row {
		row[i] *= 2
	}
	return row
}

// best is a plain argmax: the lowest of the tokens that allowed admits with
// the highest logit, -1 if there are none.
func best(row []float32, allowed func(Token) bool) Token {
	b := Token(-1)
	for i, x := range row {
		if t := Token(i); x > float32(math.Inf(-1)) && allowed(t) && (b < 0 || x > row[b]) {
			b = t
		}
	}
	return b
}

func all(Token) bool { return true }

func mustSample(t testing.TB, s *Sampler, row []float32) Token {
	t.Helper()
	tok, err := s.Sample(row)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestGreedyIsTheArgmax(t *testing.T) {
	for _, arch := range []string{synth.GPTOSS, synth.Qwen3} {
		m := shared(t, arch)
		s := newSampler(t, m, SamplerConfig{})
		for seed := range uint64(50) {
			row := randomRow(m, seed)
			for i := range row { // ties
				row[i] = float32(math.Round(float64(row[i])))
			}
			if got, want := mustSample(t, s, row), best(row, all); got != want {
				t.Fatalf("row %d: %d, want %d", seed, got, want)
			}
		}
	}
}

func TestSampleDoesNotChangeTheRow(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	row := randomRow(m, 1)
	before := slices.Clone(row)
	for _, cfg := range []SamplerConfig{{}, {Temperature: 1, TopK: 5}, {Temperature: 1}, {Grammar: `root ::= "zz"`}} {
		mustSample(t, newSampler(t, m, cfg), row)
	}
	if !slices.Equal(row, before) {
		t.Error("the row has changed")
	}
}

func TestSampleRefusesBadRows(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	size := m.Vocab().Size()
	fill := func(x float64) []float32 { return slices.Repeat([]float32{float32(x)}, size) }
	const few, many = `root ::= "A"`, `root ::= [^"]*` // tokens may come
	for _, cfg := range []SamplerConfig{
		{}, {Temperature: 1, TopK: 40}, {Temperature: 1},
		{Grammar: few}, {Temperature: 1, TopK: 40, Grammar: few}, {Temperature: 1, Grammar: few}, {Grammar: many}, {Temperature: 1, Grammar: many},
	} {
		s := newSampler(t, m, cfg)
		for _, row := range [][]float32{fill(math.NaN()), fill(math.Inf(-1))} {
			if _, err := s.Sample(row); !errors.Is(err, ErrCompute) {
				t.Errorf("%+v: a row of %v: %v", cfg, row[0], err)
			}
		}
		for _, row := range [][]float32{nil, make([]float32, size-1), make([]float32, size+1)} {
			if _, err := s.Sample(row); err == nil {
				t.Errorf("%+v: a row of %d values is taken", cfg, len(row))
			}
		}
	}
}

func TestSamplerConfigErrors(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	nan := float32(math.NaN())
	for _, tc := range []struct {
		want string
		cfg  SamplerConfig
	}{
		{"temperature", SamplerConfig{Temperature: nan}},
		{"top-p", SamplerConfig{TopP: nan}},
		{"min-p", SamplerConfig{MinP: float32(math.Inf(1))}},
		{"token -1", SamplerConfig{Suppress: []Token{-1}}},
		{"token 99999", SamplerConfig{Allow: []Token{99999}}},
	} {
		if s, err := m.NewSampler(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.want, err)
			if s != nil {
				s.Close()
			}
		}
	}
}

func draws(t testing.TB, s *Sampler, rows int) []Token {
	t.Helper()
	var out []Token
	for seed := range uint64(rows) {
		out = append(out, mustSample(t, s, randomRow(s.model, seed)))
	}
	return out
}

func TestSeedsDecideTheDraws(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	for _, cfg := range []SamplerConfig{{Temperature: 1, TopK: 40, TopP: 0.95}, {Temperature: 0.7}, {Temperature: 1, MinP: 0.01}, {Temperature: 1, TopK: 40, Grammar: `root ::= [a-z]*`}} {
		with := func(seed uint32) []Token {
			cfg.Seed = seed
			return draws(t, newSampler(t, m, cfg), 40)
		}
		if !slices.Equal(with(7), with(7)) {
			t.Errorf("%+v: the same seed draws differently", cfg)
		}
		if slices.Equal(with(7), with(8)) {
			t.Errorf("%+v: seeds 7 and 8 draw the same", cfg)
		}
		// llama.cpp reads the largest seed as "from the clock"
		if !slices.Equal(with(math.MaxUint32), with(math.MaxUint32)) {
			t.Errorf("%+v: the largest seed is not a seed", cfg)
		}
	}
}

func TestClones(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	s := newSampler(t, m, SamplerConfig{Temperature: 1, TopK: 40, Seed: 3, Grammar: `root ::= "the" [a-z]*`})
	for _, tok := range tokenize(t, m, "the") {
		if err := s.Accept(tok); err != nil {
			t.Fatal(err)
		}
	}
	clone, err := s.Clone()
	if err != nil {
		t.Fatal(err)
	}
	defer clone.Close()
	other, err := s.CloneSeed(4)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	want := draws(t, s, 30)
	if got := draws(t, clone, 30); !slices.Equal(got, want) {
		t.Errorf("the clone draws %v, not %v", got, want)
	}
	if got := draws(t, other, 30); slices.Equal(got, want) {
		t.Error("another seed draws the same")
	}
}

// uniform is the number in [0, 1) of a draw: see native/sampling/chooser.cpp.
func uniform(seed, position, attempt uint64) float64 {
	mix := func(x uint64) uint64 {
		x += 0x9E3779B97F4A7C15
		x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
		x = (x ^ (x >> 27)) * 0x94D049BB133111EB
		return x ^ (x >> 31)
	}
	return float64(mix(mix(mix(seed)^position)^attempt)>>11) / (1 << 53)
}

func TestDrawFollowsTheSoftmax(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for _, temperature := range []float32{0.05, 0.7, 1, 10} {
		for name, spoil := range map[string]func(row []float32){
			"any row": func([]float32) {},
			"half of it impossible": func(row []float32) {
				for i := range row[:len(row)/2] {
					row[i] = float32(math.Inf(-1))
				}
			},
			"one token": func(row []float32) {
				for i := range row {
					row[i] = float32(math.Inf(-1))
				}
				row[777] = 3
			},
		} {
			t.Run(fmt.Sprint(name, " at ", temperature), func(t *testing.T) {
				row := randomRow(m, 5)
				spoil(row)
				off := map[Token]bool{}
				cfg := SamplerConfig{Temperature: temperature, Seed: 11, Suppress: []Token{3, 1000, 100_000}}
				for _, s := range cfg.Suppress {
					off[s] = true
				}
				best := float64(slices.Max(row))
				below := make([]float64, len(row)+1) // for each token, the sum of the weights before it
				for i, x := range row {
					below[i+1] = below[i]
					if !off[Token(i)] {
						below[i+1] += math.Exp((float64(x) - best) / float64(temperature))
					}
				}
				sum := below[len(row)]
				s := newSampler(t, m, cfg)
				for position := range uint64(200) {
					token, err := s.Sample(row)
					if err != nil {
						t.Fatal(err)
					}
					u := uniform(11, position, 0)
					if off[token] || below[token+1] == below[token] || below[token]/sum > u+1e-5 || below[token+1]/sum < u-1e-5 {
						t.Fatalf("draw %d: token %d has [%.6f, %.6f], drawn was %.6f", position, token, below[token]/sum, below[token+1]/sum, u)
					}
				}
			})
		}
	}
}

func TestTopKDrawsFromTheBestKOnly(t *testing.T) {
	m := shared(t, synth.Qwen3)
	row := randomRow(m, 5)
	order := make([]Token, len(row))
	for i := range order {
		order[i] = Token(i)
	}
	slices.SortFunc(order, func(a, b Token) int {
		if row[a] != row[b] {
			return -int(math.Copysign(1, float64(row[a]-row[b])))
		}
		return int(a - b)
	})
	const k = 5
	s := newSampler(t, m, SamplerConfig{Temperature: 100, TopK: k, Seed: 1})
	seen := map[Token]bool{}
	for range 300 {
		tok := mustSample(t, s, row)
		if !slices.Contains(order[:k], tok) {
			t.Fatalf("token %d is not among the best %d", tok, k)
		}
		seen[tok] = true
	}
	if len(seen) != k {
		t.Errorf("only %d of the best %d were drawn", len(seen), k)
	}
}

func TestTruncationLeavesTheFavourite(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	row := randomRow(m, 3)
	favourite := best(row, all)
	row[favourite] += 30
	for _, cfg := range []SamplerConfig{{Temperature: 1, TopP: 0.5}, {Temperature: 1, MinP: 0.5}, {Temperature: 1, TopK: 1}, {Temperature: 1, TopK: 50, TopP: 0.5, MinP: 0.1}} {
		s := newSampler(t, m, cfg)
		for range 20 {
			if got := mustSample(t, s, row); got != favourite {
				t.Errorf("%+v: %d, want %d", cfg, got, favourite)
			}
		}
	}
}

func TestSuppression(t *testing.T) {
	m := shared(t, synth.Qwen3)
	v := m.Vocab()
	start, _ := v.Find("<|im_start|>")
	end, _ := v.Find("<|im_end|>")
	row := randomRow(m, 9)
	plain := best(row, func(t Token) bool { return !v.IsControl(t) })
	row[start], row[end] = 1000, 900
	for _, tc := range []struct {
		rule string
		cfg  SamplerConfig
		want Token
	}{
		{"without suppression a control token wins", SamplerConfig{}, start},
		{"control tokens are suppressed, end of generation is not", SamplerConfig{SuppressControl: true}, end},
		{"named tokens are suppressed too", SamplerConfig{SuppressControl: true, Suppress: []Token{end, start}}, plain},
		{"allowed tokens are not suppressed", SamplerConfig{SuppressControl: true, Allow: []Token{start}}, start},
		{"Suppress outranks Allow", SamplerConfig{SuppressControl: true, Allow: []Token{start}, Suppress: []Token{start}}, end},
		{"the text of a control token in a grammar does not admit it", SamplerConfig{SuppressControl: true, Grammar: `root ::= "<|im_start|>" | "!"`}, 0},
		{"a token that the grammar names is admitted", SamplerConfig{SuppressControl: true, Grammar: `root ::= <|im_start|> "x"`}, start},
		{"by number as well", SamplerConfig{SuppressControl: true, Grammar: `root ::= <[151644]> "x"`}, start},
	} {
		for _, temperature := range []float32{0, 1} {
			cfg := tc.cfg
			cfg.Temperature, cfg.TopK = temperature, 1
			t.Run(tc.rule, func(t *testing.T) {
				got := mustSample(t, newSampler(t, m, cfg), row)
				if tc.want == 0 { // the grammar's literals
					if text := string(v.Piece(got, true)); !strings.HasPrefix("<|im_start|>", text) && text != "!" || v.IsControl(got) {
						t.Errorf("%d %q", got, text)
					}
				} else if got != tc.want {
					t.Errorf("%d %q, want %q", got, v.Piece(got, true), v.Piece(tc.want, true))
				}
			})
		}
	}
}

// TestNoTokenIsLeft: what a request suppresses is not a failed computation.
func TestNoTokenIsLeft(t *testing.T) {
	m := shared(t, synth.Qwen3)
	row := randomRow(m, 9)
	everything := make([]Token, len(row))
	for i := range everything {
		everything[i] = Token(i)
	}
	a, _ := m.Vocab().Find("a")
	for name, cfg := range map[string]SamplerConfig{
		"all suppressed":                         {Suppress: everything},
		"all suppressed under a grammar":         {Suppress: everything, Grammar: `root ::= [a-z]+`},
		"all that the grammar admits suppressed": {Suppress: []Token{a}, Grammar: `root ::= "a"`},
		"the finite ones suppressed":             {Suppress: everything[1:]},
	} {
		for _, c := range []SamplerConfig{{}, {Temperature: 1}, {Temperature: 1, TopK: 40}, {Temperature: 1, TopP: 0.9}, {Temperature: 1, TopK: 40, MinP: 0.1}} {
			c.Suppress, c.Grammar = cfg.Suppress, cfg.Grammar
			row := slices.Clone(row)
			row[0] = float32(math.Inf(-1))
			if _, err := newSampler(t, m, c).Sample(row); !errors.Is(err, ErrGrammarDead) {
				t.Errorf("%s, %+v: %v", name, c.Temperature, err)
			}
			for i := range row {
				row[i] = float32(math.NaN())
			}
			if _, err := newSampler(t, m, c).Sample(row); !errors.Is(err, ErrCompute) && c.Grammar == "" {
				t.Errorf("%s, a row of NaN: %v", name, err)
			}
		}
	}
}

func TestSamplersRunInParallel(t *testing.T) {
	m := shared(t, synth.Qwen3)
	row := randomRow(m, 4)
	first := newSampler(t, m, SamplerConfig{Temperature: 1, TopK: 40, Seed: 1, Grammar: `root ::= [a-z ]+`})
	want := make([]Token, 8)
	parallel := make([]Token, 8)
	for i := range want {
		s, err := first.CloneSeed(uint32(i))
		if err != nil {
			t.Fatal(err)
		}
		want[i] = mustSample(t, s, row)
		s.Close()
	}
	var wg sync.WaitGroup
	for i := range parallel {
		wg.Go(func() {
			s, err := first.CloneSeed(uint32(i))
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			parallel[i], _ = s.Sample(row)
		})
	}
	wg.Wait()
	if !slices.Equal(parallel, want) {
		t.Errorf("in parallel %v, one by one %v", parallel, want)
	}
}

// TestNoEndComesBeforeTheLeastTokens, also if tokens were accepted or the sampler was copied.
func TestNoEndComesBeforeTheLeastTokens(t *testing.T) {
	m := shared(t, synth.Qwen3)
	row := randomRow(m, 1)
	for id := range row {
		if m.Vocab().IsEOG(Token(id)) {
			row[id] = 100
		}
	}
	for _, cfg := range []SamplerConfig{{}, {Temperature: 1}, {Temperature: 1, TopK: 5}, {Temperature: 1, Score: true, Mask: 9}} {
		cfg.Least = 4
		s := newSampler(t, m, cfg)
		ends := []bool{m.Vocab().IsEOG(mustSample(t, s, row))}
		if err := s.Accept(1); err != nil {
			t.Fatal(err)
		}
		c, err := s.Clone()
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ends = append(ends, m.Vocab().IsEOG(mustSample(t, c, row)))
		}
		if !slices.Equal(ends, []bool{false, false, false, true}) {
			t.Errorf("%+v: ends %t", cfg, ends)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

package llama

import (
	"errors"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentd/llama/synth"
)

// jsonChar is one character of a JSON string, as agent/internal/gbnf writes it.
const jsonChar = `
space ::= " "?
char ::= [^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" ([0-9a-cA-Ce-fE-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] | [dD] [0-7] [0-9a-fA-F] [0-9a-fA-F]))
string ::= "\"" char* "\""
integer ::= "-"? ([0] | [1-9] [0-9]{0,31})
number ::= integer ("." [0-9]{1,32})? ([eE] [-+]? [0-9] [0-9]?)?
`

// toolGrammars are grammars of arguments, in the form that agent/internal/schema gives them.
var toolGrammars = map[string]string{
	"strings, bounds and an enumeration": jsonChar + `
r2 ::= "\"" char{0,30} "\""
tags ::= "[" space (r2 ("," space r2)*)? space "]"
r6 ::= "," space "\"tags\"" space ":" space tags | ""
r8 ::= "," space "\"priority\"" space ":" space ("\"low\"" | "\"normal\"" | "\"high\"") r6 | r6
r10 ::= "," space "\"urgent\"" space ":" space ("true" | "false") r8 | r8
root ::= "{" space "\"to\"" space ":" space string "," space "\"note\"" space ":" space "\"" char{0,200} "\"" r10 space "}"`,
	"patterns, numbers, and an enumeration beside a string": jsonChar + `
mode ::= "\"auto\"" | "\"manual\"" | "\"" char{3,} "\""
count ::= ("1" | [2-9]) | [1-9] [0-9]{1} | ([1-4] [0-9]{2} | "500")
r5 ::= [\u0021\u0023-\u003F\u0041-\u005B\u005D-\uD7FF\uE000-\U0010FFFF] | "\\" [btnfr"\\]
r7 ::= "\"" | [\u002D-\u002E\u0030-\u0039\u0061-\u007A] r7
r6 ::= r5 r6 | [\u0040] [\u002D-\u002E\u0030-\u0039\u0061-\u007A] r7
r10 ::= "\"" | [\u0030-\u0039\u0041-\u005A\u005F\u0061-\u007A] r10
id ::= "\"" [\u0041-\u005A\u005F\u0061-\u007A] r10
root ::= "{" space "\"id\"" space ":" space id "," space "\"email\"" space ":" space "\"" r5 r6 "," space "\"count\"" space ":" space count "," space "\"ratio\"" space ":" space number "," space "\"mode\"" space ":" space mode space "}"`,
	"any value": jsonChar + `
value ::= object | array | string | number | ("true" | "false") | "null"
pair ::= string space ":" space value
object ::= "{" space ( pair ( "," space pair )* )? space "}"
array ::= "[" space ( value ( "," space value )* )? space "]"
root ::= "{" space "\"labels\"" space ":" space object "," space "\"filter\"" space ":" space value space "}"`,
	"a reply or a tagged call": `
free ::= | [^<] free | [<] open
open ::= [^<t] free | [<] open | [t] tool
tool ::= [^<o] free | [<] open
value ::= [^<] value | [<] close
close ::= [^</] value | [<] close | [/] ">"
root ::= [^ \n\t<] free | "<tool>" value`,
}

// threadTime is what the calling thread has computed. It does not count what other processes take.
func threadTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

// BenchmarkRefusedChoice measures tokens whose free choice the grammar refuses, in random walks through the
// arguments of tools, with Qwen's vocabulary of 151,936 tokens. The times are the thread's, in
// microseconds: of the token, and what the grammar adds to the same token without one.
func BenchmarkRefusedChoice(b *testing.B) {
	m := shared(b, synth.Qwen3)
	topK := SamplerConfig{Temperature: 0.6, TopP: 0.95, TopK: 20}
	scored := topK
	scored.Score = true
	for _, bc := range []struct {
		name     string
		cfg      SamplerConfig
		children bool
	}{
		{"greedy", SamplerConfig{}, false},
		{"top-k", topK, false},
		{"temperature", SamplerConfig{Temperature: 0.7}, false},
		{"top-p", SamplerConfig{Temperature: 0.7, TopP: 0.95}, false},
		{"logprobs,top-k", scored, false},
		{"logprobs,temperature", SamplerConfig{Temperature: 0.7, Score: true}, false},
		{"children,top-k", scored, true},
		{"children,temperature", SamplerConfig{Temperature: 0.7, Score: true}, true},
	} {
		b.Run(bc.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			rows := refusedRows(b, m)
			free := newSampler(b, m, bc.cfg)
			var constrained *Sampler
			names := slices.Sorted(maps.Keys(toolGrammars))
			rng := rand.New(rand.NewPCG(5, 5))
			var whole, added []float64
			tokens, walks := 0, 0
			step := func() {
				if constrained == nil || tokens == 60 {
					cfg := bc.cfg
					cfg.Grammar, cfg.Seed = toolGrammars[names[walks%len(names)]], uint32(walks)
					constrained, tokens, walks = newSampler(b, m, cfg), 0, walks+1
				}
				row := rows[rng.IntN(len(rows))]
				base, _, err := timedToken(free, row, bc.children)
				if err != nil {
					b.Fatal(err)
				}
				took, t, err := timedToken(constrained, row, bc.children)
				if errors.Is(err, ErrGrammarDead) {
					constrained = nil
					return
				}
				if err != nil {
					b.Fatal(err)
				}
				tokens++
				whole = append(whole, float64(took)/1e3)
				added = append(added, float64(took-base)/1e3)
				if m.Vocab().IsEOG(t) {
					constrained = nil
				} else if _, end, err := constrained.Force(nil); err != nil || end >= 0 {
					constrained = nil
				}
			}
			for walks <= len(toolGrammars) { // makes the vocabulary's tables
				step()
			}
			whole, added = nil, nil
			for b.Loop() {
				step()
			}
			report := func(name string, list []float64) {
				slices.Sort(list)
				sum := 0.0
				for _, x := range list {
					sum += x
				}
				b.ReportMetric(sum/float64(len(list)), name+"-mean-µs")
				b.ReportMetric(list[len(list)*99/100], name+"-p99-µs")
			}
			report("token", whole)
			report("added", added)
		})
	}
}

// timedToken samples a token and returns the time for it, or for the list of its alternatives.
func timedToken(s *Sampler, row []float32, children bool) (time.Duration, Token, error) {
	begin := threadTime()
	if children {
		if _, _, err := s.Children(row, 1e-3, nil); err != nil {
			return 0, -1, err
		}
		took := threadTime() - begin
		t, err := s.Sample(row)
		return took, t, err
	}
	t, err := s.Sample(row)
	return threadTime() - begin, t, err
}

// refusedRows are rows of logits whose best tokens no grammar of a tool admits. Some of them close
// strings and go on after them.
func refusedRows(tb testing.TB, m *Model) [][]float32 {
	var rows [][]float32
	for i := range uint64(12) {
		row := randomRow(m, 900+i)
		most := slices.Max(row)
		for t := range Token(m.Vocab().Size()) {
			if text := m.Vocab().Piece(t, false); len(text) > 0 && text[0] == '"' && i%3 == 0 {
				row[t] += most / 2
			}
		}
		most = slices.Max(row)
		for _, text := range []string{"\n", "\n\n", "\t\t", "\n\n\n"} {
			row[tokenize(tb, m, text)[0]] = most + 4
		}
		rows = append(rows, row)
	}
	return rows
}

package llama

import (
	"fmt"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// BenchmarkDecodeStep is one step of n sequences: batch, decode, first row.
func BenchmarkDecodeStep(b *testing.B) {
	m := shared(b, synth.Qwen3)
	for _, n := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("width=%d", n), func(b *testing.B) {
			c := newContext(b, m, SetContext(8192), SetMaxSequences(n))
			batch := make([]Row, n)
			pos := Pos(0)
			b.ReportAllocs()
			for b.Loop() {
				if int(pos+1)*n > c.Size() {
					if err := c.Memory().Clear(true); err != nil {
						b.Fatal(err)
					}
					pos = 0
				}
				for s := range batch {
					batch[s] = Row{65, pos, SeqID(s), true}
				}
				pos++
				if err := c.Decode(batch); err != nil {
					b.Fatal(err)
				}
				if _, err := c.Logits(0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSample is one token of Qwen's vocabulary of 151,936.
func BenchmarkSample(b *testing.B) {
	m := shared(b, synth.Qwen3)
	const text = `root ::= [^\x00]*` // accepts any text
	const word = `root ::= "no such word in any row "+`
	for _, bc := range []struct {
		name string
		cfg  SamplerConfig
	}{
		{"greedy", SamplerConfig{}},
		{"greedy,suppress", SamplerConfig{SuppressControl: true}},
		{"top-k", SamplerConfig{Temperature: 0.7, TopK: 40, TopP: 0.95}},
		{"top-p", SamplerConfig{Temperature: 0.7, TopP: 0.95}},
		{"temperature", SamplerConfig{Temperature: 0.7}},
		{"greedy,grammar-accepts", SamplerConfig{Grammar: text}},
		{"top-k,grammar-accepts", SamplerConfig{Temperature: 0.7, TopK: 40, TopP: 0.95, Grammar: text}},
		{"greedy,grammar-rejects", SamplerConfig{Grammar: word}},
		{"temperature,grammar-accepts", SamplerConfig{Temperature: 0.7, Grammar: text}},
		{"temperature,grammar-rejects", SamplerConfig{Temperature: 0.7, Grammar: word}},
		{"temperature,grammar-rejects-some", SamplerConfig{Temperature: 0.7, Grammar: `root ::= [^"\\a-i]*`}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			s := newSampler(b, m, bc.cfg)
			row := randomRow(m, 1)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Sample(row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkForce measures the extra cost of a sampled token: where the grammar leaves a
// choice, and where the rest of a tool's name and its first key are forced.
func BenchmarkForce(b *testing.B) {
	const call = `root ::= text "x"? | ("go_to" | "open") "\", \"arguments\": {\"room\": \"" [a-z]* "\"}"
text ::= [^\x00]*`
	for _, arch := range []string{synth.Qwen3, synth.GPTOSS} {
		m := shared(b, arch)
		for _, bc := range []struct{ name, gbnf, text string }{
			{"nothing", call, "go"},
			{"name", strings.Replace(call, `text "x"? | `, "", 1), "go"},
		} {
			b.Run(arch+","+bc.name, func(b *testing.B) {
				s := newSampler(b, m, SamplerConfig{Grammar: bc.gbnf})
				for _, tok := range tokenize(b, m, bc.text) {
					if err := s.Accept(tok); err != nil {
						b.Fatal(err)
					}
				}
				buffer := make([]Token, 0, MaxForced)
				b.ReportAllocs()
				for b.Loop() {
					c := s
					if bc.name != "nothing" { // a copy for each run, as forcing moves its position
						b.StopTimer()
						var err error
						if c, err = s.Clone(); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
					list, _, err := c.Force(buffer)
					if err != nil || (len(list) > 0) != (bc.name != "nothing") {
						b.Fatal(list, err)
					}
					if c != s {
						b.StopTimer()
						_ = c.Close()
						b.StartTimer()
					}
				}
			})
		}
	}
}

func BenchmarkCloneSeed(b *testing.B) {
	m := shared(b, synth.Qwen3)
	const gbnf = `root ::= "{\"x\": " [1-9] [0-9]{0,15} (", \"room\": \"" [a-z]* "\"")? "}"`
	s := newSampler(b, m, SamplerConfig{Temperature: 1, TopK: 40, Grammar: gbnf})
	for b.Loop() {
		c, err := s.CloneSeed(1)
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

func BenchmarkTokenize(b *testing.B) {
	m := shared(b, synth.Qwen3)
	const text = `The robot goes to the kitchen, opens the door and says: "Dinner is ready in {\"minutes\": 5}."`
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := m.Vocab().Tokenize(text, false, false); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDetokenize(b *testing.B) {
	m := shared(b, synth.Qwen3)
	tokens := tokenize(b, m, "The robot goes to the kitchen and opens the door.")
	b.ReportAllocs()
	for b.Loop() {
		m.Vocab().Detokenize(tokens, true)
	}
}

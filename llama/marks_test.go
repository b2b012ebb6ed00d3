package llama

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// markText is mark i as a grammar writes it; native/grammar/matcher.h defines its number.
func markText(i int) string { return fmt.Sprintf("<[%d]>", 0x7FFF0000+i) }

// part is a piece of a grammar whose texts the test can list.
type part struct {
	kind  string // literal, mark, all, any, repeat
	text  string
	mark  int
	parts []part
	most  int
}

func (p part) gbnf() string {
	list := make([]string, len(p.parts))
	for i := range p.parts {
		list[i] = p.parts[i].gbnf()
	}
	switch p.kind {
	case "literal":
		return `"` + p.text + `"`
	case "mark":
		return markText(p.mark)
	case "all":
		return "( " + strings.Join(list, " ") + " )"
	case "any":
		return "( " + strings.Join(list, " | ") + " )"
	}
	return fmt.Sprintf("( %s ){0,%d}", list[0], p.most)
}

// way is a text of a part and the marks that it passes.
type way struct {
	text  string
	marks uint64
}

// from are the paths through a part after the given ones.
func (p part) from(before map[way]bool) map[way]bool {
	out := map[way]bool{}
	switch p.kind {
	case "literal":
		for w := range before {
			out[way{w.text + p.text, w.marks}] = true
		}
	case "mark":
		for w := range before {
			if bit := uint64(1) << p.mark; w.marks&bit == 0 {
				out[way{w.text, w.marks | bit}] = true
			}
		}
	case "all":
		for _, q := range p.parts {
			before = q.from(before)
		}
		return before
	case "any":
		for _, q := range p.parts {
			for w := range q.from(before) {
				out[w] = true
			}
		}
	case "repeat":
		for range p.most + 1 {
			for w := range before {
				out[w] = true
			}
			before = p.parts[0].from(before)
		}
	}
	return out
}

func randomPart(r *rand.Rand, depth int) part {
	kind := r.IntN(5)
	if depth == 0 {
		kind = r.IntN(2)
	}
	switch kind {
	case 0:
		return part{kind: "literal", text: strings.Repeat("ab"[r.IntN(2):][:1], 1+r.IntN(2))}
	case 1:
		return part{kind: "mark", mark: []int{0, 1, 2, 63}[r.IntN(4)]}
	case 4:
		return part{kind: "repeat", most: 1 + r.IntN(3), parts: []part{randomPart(r, depth-1)}}
	}
	p := part{kind: []string{"all", "any"}[kind-2]}
	for range 1 + r.IntN(3) {
		p.parts = append(p.parts, randomPart(r, depth-1))
	}
	return p
}

// TestMarkMatchesOnce compares grammars with marks with the list of their texts.
func TestMarkMatchesOnce(t *testing.T) {
	m := shared(t, synth.Qwen3)
	r := rand.New(rand.NewPCG(7, 7))
	letters := map[byte]Token{'a': tokenize(t, m, "a")[0], 'b': tokenize(t, m, "b")[0]}
	end := m.vocab.eos
	const longest = 6
	narrower := 0
	for range 400 {
		root := part{kind: "all", parts: []part{randomPart(r, 3), randomPart(r, 3)}}
		gbnf := "root ::= " + root.gbnf()
		ways := root.from(map[way]bool{{}: true})
		texts, begins := map[string]bool{}, map[string]bool{}
		for w := range ways {
			texts[w.text] = true
			for i := range len(w.text) + 1 {
				begins[w.text[:i]] = true
			}
		}
		if len(texts) == 0 {
			if s, err := m.NewSampler(SamplerConfig{Grammar: gbnf}); !errors.Is(err, ErrGrammar) {
				if err != nil {
					t.Fatal(err)
				}
				s.Close() // no text of the grammar begins with these characters
			}
			continue
		}
		s, err := m.NewSampler(SamplerConfig{Grammar: gbnf})
		if err != nil {
			t.Fatalf("%v for %s", err, gbnf)
		}
		var walk func(s *Sampler, text string)
		walk = func(s *Sampler, text string) {
			last, err := s.Clone()
			if err != nil {
				t.Fatal(err)
			}
			if err := last.Accept(end); (err == nil) != texts[text] || err != nil && !errors.Is(err, ErrRejected) {
				t.Errorf("%s: %q is admitted: %v, want %t", gbnf, text, err, texts[text])
			}
			last.Close()
			forcing, err := s.Clone()
			if err != nil {
				t.Fatal(err)
			}
			forced, _, err := forcing.Force(nil)
			if err != nil {
				t.Fatal(err)
			}
			forcing.Close()
			only := text + m.Vocab().Detokenize(forced, true)
			for other := range texts {
				if strings.HasPrefix(other, text) && !strings.HasPrefix(other, only) {
					t.Errorf("%s: %q is forced after %q, but there is %q", gbnf, only[len(text):], text, other)
				}
			}
			if len(text) == longest {
				return
			}
			for letter, token := range letters {
				next, err := s.Clone()
				if err != nil {
					t.Fatal(err)
				}
				err = next.Accept(token)
				more := text + string(letter)
				switch {
				case err == nil:
					walk(next, more)
				case !errors.Is(err, ErrRejected):
					t.Fatal(err)
				case begins[more]:
					t.Errorf("%s: %q is rejected, though it goes on", gbnf, more)
				}
				next.Close()
			}
		}
		walk(s, "")
		s.Close()
		if strings.Contains(gbnf, "<[") {
			narrower++
		}
		if t.Failed() {
			return
		}
	}
	if narrower < 100 {
		t.Errorf("only %d grammars had marks and texts: the test shows little", narrower)
	}
}

// TestMarksLeaveNothingOver: the last alternative of a grammar with marks is forced, and
// each of 64 marks counts.
func TestMarksLeaveNothingOver(t *testing.T) {
	m := shared(t, synth.Qwen3)
	var names []string
	for i := range 64 {
		names = append(names, fmt.Sprintf(`%s "n%d<tool_call>"`, markText(i), i))
	}
	s := newSampler(t, m, SamplerConfig{Grammar: "root ::= name{64}\nname ::= " + strings.Join(names, " | ")})
	order := rand.New(rand.NewPCG(1, 1)).Perm(64)
	for i, n := range order {
		if i == len(order)-1 {
			break
		}
		for _, token := range tokenize(t, m, fmt.Sprintf("n%d<tool_call>", n)) {
			if err := s.Accept(token); err != nil {
				t.Fatalf("name %d, n%d: %v", i, n, err)
			}
		}
	}
	forced, end, err := s.Force(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.Vocab().Detokenize(forced, true), fmt.Sprintf("n%d<tool_call>", order[63]); got != want || end < 0 {
		t.Errorf("%q is forced and the end is %d, want %q and an end", got, end, want)
	}
}

func TestGrammarsOfNothingButMarks(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for gbnf, want := range map[string]string{
		"root ::= " + markText(0) + " " + markText(0) + ` "a"`: "a mark twice",
		"root ::= " + markText(0) + ` root "a" | "b"`:          "left recursive",
		"root ::= " + markText(64) + ` "a"`:                    "not in the vocabulary",
	} {
		s, err := m.NewSampler(SamplerConfig{Grammar: gbnf})
		if !errors.Is(err, ErrGrammar) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", gbnf, err, want)
		}
		if s != nil {
			s.Close()
		}
	}
}

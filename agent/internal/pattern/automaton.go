package pattern

import (
	"encoding/binary"
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// Language is a set of strings.
type Language struct {
	Match, Avoid []string // expressions of Go's regexp: each of Match matches somewhere in the string, none of Avoid does
	Min, Max     int      // length in characters; Max is -1 for no bound
	Except       []string // excluded strings
}

// Any reports whether every string is in the language.
func (l Language) Any() bool {
	return len(l.Match)+len(l.Avoid)+len(l.Except) == 0 && l.Min == 0 && l.Max < 0
}

// Automaton accepts the strings of a language. It begins in state 0; without states it accepts
// nothing. It may be nondeterministic: edges of a state may share characters.
type Automaton []State

// State is a state of an [Automaton].
type State struct {
	Accept bool // the string may end here
	All    bool // anything may follow
	Edges  []Edge
}

// Edge leads to another state by one character.
type Edge struct {
	Ranges []rune // pairs of a first and a last character
	To     int    // index of the state
}

// machine is one expression of a language, compiled.
type machine struct {
	prog   *syntax.Prog
	wanted bool
}

// place is a state of all machines together, after some characters.
type place struct {
	seeds [][]uint32 // instructions of each machine, sorted; nil when it has matched already
	begin bool
	count int // of characters, at most builder.most
}

type builder struct {
	Language
	machines []machine
	most     int  // larger counts of characters are equivalent
	apart    bool // nondeterministic: each instruction has its own place
}

var errLarge = errors.New("it takes too many states")

const maxInstructions = 2000

// Automaton makes the automaton of a language. More than limit states are an error, except that a
// single expression may get a nondeterministic automaton instead. \b, ^ and $ of lines are errors.
func (l Language) Automaton(limit int) (Automaton, error) {
	b := &builder{Language: l, most: max(l.Min, l.Max+1)}
	for i, expr := range slices.Concat(l.Match, l.Avoid) {
		prog, err := parse(expr)
		if err != nil {
			return nil, err
		}
		for _, inst := range prog.Inst {
			if inst.Op == syntax.InstEmptyWidth && syntax.EmptyOp(inst.Arg)&^(syntax.EmptyBeginText|syntax.EmptyEndText) != 0 {
				return nil, errors.New(`word boundaries and lines (\b, (?m)) can't be expressed`)
			}
		}
		b.machines = append(b.machines, machine{prog, i < len(l.Match)})
	}
	if len(l.Except) > 0 {
		quoted := make([]string, len(l.Except))
		for i, s := range l.Except {
			quoted[i] = regexp.QuoteMeta(s)
			limit += len(s)
		}
		prog, err := program("^(" + strings.Join(quoted, "|") + ")$")
		if err != nil {
			return nil, err
		}
		b.machines = append(b.machines, machine{prog, false})
	}
	a, err := b.run(limit)
	if err != nil && len(b.machines) == 1 && b.machines[0].wanted && b.most == 0 {
		b.apart = true
		return b.run(maxInstructions)
	}
	return a, err
}

func rangesOf(inst *syntax.Inst) (ranges []rune) {
	cuts := appendCuts([]rune{0, unicode.MaxRune + 1}, inst)
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i := 0; i+1 < len(cuts); i++ {
		if inst.MatchRune(cuts[i]) {
			ranges = append(ranges, cuts[i], cuts[i+1]-1)
		}
	}
	return ranges
}

func (b *builder) run(limit int) (Automaton, error) {
	first := place{begin: true}
	for _, m := range b.machines {
		first.seeds = append(first.seeds, []uint32{uint32(m.prog.Start)})
	}
	places := []place{first}
	index := map[string]int{} // the first place is never entered again: it alone is at the beginning
	var states Automaton
	for i := 0; i < len(places); i++ {
		if len(places) > limit {
			return nil, errLarge
		}
		s := State{Accept: b.accepts(&places[i])}
		each := b.each
		if b.apart {
			each = b.eachApart
		}
		each(&places[i], func(low, high rune, next place) {
			key := next.key()
			to, ok := index[key]
			if !ok {
				to = len(places)
				index[key] = to
				places = append(places, next)
			}
			e := slices.IndexFunc(s.Edges, func(e Edge) bool { return e.To == to })
			if e < 0 {
				e = len(s.Edges)
				s.Edges = append(s.Edges, Edge{To: to})
			}
			ranges := s.Edges[e].Ranges
			if n := len(ranges); n > 0 && (ranges[n-1] == low-1 || ranges[n-1] == surrogates-1 && low == afterSurrogates) {
				ranges[n-1] = high
			} else {
				s.Edges[e].Ranges = append(ranges, low, high)
			}
		})
		states = append(states, s)
	}
	return states.pruned(), nil
}

func (p *place) key() string {
	var k []byte
	for _, seeds := range p.seeds { // none, or one at least
		k = binary.AppendUvarint(k, uint64(len(seeds)))
		for _, pc := range seeds {
			k = binary.AppendUvarint(k, uint64(pc))
		}
	}
	return string(binary.AppendVarint(k, int64(p.count)))
}

// closure calls f for the instructions that can be reached from seeds without a character.
func closure(prog *syntax.Prog, seeds []uint32, begin, end bool, f func(inst *syntax.Inst)) {
	seen := make([]bool, len(prog.Inst))
	var visit func(pc uint32)
	visit = func(pc uint32) {
		if seen[pc] {
			return
		}
		seen[pc] = true
		inst := &prog.Inst[pc]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(inst.Out)
			visit(inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			visit(inst.Out)
		case syntax.InstEmptyWidth:
			op := syntax.EmptyOp(inst.Arg)
			if (op&syntax.EmptyBeginText == 0 || begin) && (op&syntax.EmptyEndText == 0 || end) {
				visit(inst.Out)
			}
		case syntax.InstFail:
		default:
			f(inst)
		}
	}
	for _, pc := range seeds {
		visit(pc)
	}
}

func (b *builder) accepts(p *place) bool {
	for i, m := range b.machines {
		matched := p.seeds[i] == nil
		if !matched {
			closure(m.prog, p.seeds[i], p.begin, true, func(inst *syntax.Inst) { matched = matched || inst.Op == syntax.InstMatch })
		}
		if matched != m.wanted {
			return false
		}
	}
	return p.count >= b.Min && (b.Max < 0 || p.count <= b.Max)
}

// each calls f for the characters that may follow a place, and the place after them.
func (b *builder) each(p *place, f func(low, high rune, next place)) {
	insts := make([][]*syntax.Inst, len(b.machines))
	cuts := []rune{0, surrogates, afterSurrogates, unicode.MaxRune + 1}
	now := slices.Clone(p.seeds)
	for i, m := range b.machines {
		if now[i] == nil {
			continue
		}
		closure(m.prog, now[i], p.begin, false, func(inst *syntax.Inst) {
			if inst.Op == syntax.InstMatch {
				now[i] = nil
				return
			}
			insts[i] = append(insts[i], inst)
			cuts = appendCuts(cuts, inst)
		})
		if now[i] == nil {
			insts[i] = nil
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	count := min(p.count+1, b.most)
	if b.Max >= 0 && count > b.Max {
		return
	}
cut:
	for c := 0; c+1 < len(cuts); c++ {
		low, high := cuts[c], cuts[c+1]-1
		if low == surrogates {
			continue
		}
		next := place{count: count, seeds: make([][]uint32, len(now))}
		for i, m := range b.machines {
			if now[i] == nil {
				if !m.wanted {
					continue cut
				}
				continue
			}
			seeds := []uint32{uint32(m.prog.Start)} // a match may begin anywhere
			for _, inst := range insts[i] {
				if inst.MatchRune(low) {
					seeds = append(seeds, inst.Out)
				}
			}
			slices.Sort(seeds)
			next.seeds[i] = slices.Compact(seeds)
		}
		f(low, high, next)
	}
}

// eachApart is each for a nondeterministic automaton: the ranges of a place may overlap.
func (b *builder) eachApart(p *place, f func(low, high rune, next place)) {
	start, seeds := uint32(b.machines[0].prog.Start), p.seeds[0]
	if seeds == nil {
		f(0, unicode.MaxRune, place{seeds: p.seeds})
		return
	}
	closure(b.machines[0].prog, seeds, p.begin, false, func(inst *syntax.Inst) {
		if inst.Op == syntax.InstMatch {
			f(0, unicode.MaxRune, place{seeds: [][]uint32{nil}})
			return
		}
		for r := range slices.Chunk(rangesOf(inst), 2) {
			f(r[0], r[1], place{seeds: [][]uint32{{inst.Out}}})
		}
	})
	if seeds[0] == start { // a match may begin anywhere
		f(0, unicode.MaxRune, place{seeds: [][]uint32{{start}}})
	}
}

// appendCuts appends the bounds of the ranges of an instruction's characters.
func appendCuts(cuts []rune, inst *syntax.Inst) []rune {
	switch inst.Op {
	case syntax.InstRuneAnyNotNL:
		return append(cuts, '\n', '\n'+1)
	case syntax.InstRuneAny:
		return cuts
	}
	if len(inst.Rune) == 1 {
		for _, r := range folds(inst.Rune[0]) {
			cuts = append(cuts, r, r+1)
		}
		return cuts
	}
	for i := 0; i+1 < len(inst.Rune); i += 2 {
		cuts = append(cuts, inst.Rune[i], inst.Rune[i+1]+1)
	}
	return cuts
}

// pruned returns an automaton without edges to states from which no accepting state can be reached.
func (a Automaton) pruned() Automaton {
	alive := make([]bool, len(a))
	leads := func(e Edge) bool { return alive[e.To] }
	for again := true; again; {
		again = false
		for i := len(a) - 1; i >= 0; i-- {
			if !alive[i] && (a[i].Accept || slices.ContainsFunc(a[i].Edges, leads)) {
				alive[i], again = true, true
			}
		}
	}
	if !alive[0] {
		return nil
	}
	for i := range a {
		s := &a[i]
		s.Edges = slices.DeleteFunc(s.Edges, func(e Edge) bool { return !alive[e.To] })
		s.All = s.Accept && len(s.Edges) == 1 && s.Edges[0].To == i && slices.Equal(s.Edges[0].Ranges, []rune{0, unicode.MaxRune})
	}
	return a
}

package pattern

import (
	"encoding/binary"
	"errors"
	"regexp/syntax"
	"slices"
	"unicode"
)

// Language is a set of strings.
type Language struct {
	Match, Avoid []string // expressions that match somewhere in the string, and that don't
	Min, Max     int      // characters; Max is -1 for no bound
	Except       []string // strings that are not in it
}

// Automaton accepts the strings of a language. It begins in state 0; one without states
// accepts none. Edges of a state may have characters in common.
type Automaton []State

// State is a state of an automaton.
type State struct {
	Accept bool // the string may end here
	All    bool // anything may follow
	Edges  []Edge
}

// Edge leads to another state by one character of some ranges.
type Edge struct {
	Ranges []rune
	To     int
}

// machine is one expression as a program.
type machine struct {
	prog   *syntax.Prog
	wanted bool
}

// place is where all parts of a language are after some characters.
type place struct {
	seeds [][]uint32 // of each machine, sorted; nil when it has matched whatever follows
	begin bool
	count int // no more than tell apart
	node  int // of the exceptions' trie, -1 outside
}

type builder struct {
	Language
	machines []machine
	trie     []map[rune]int
	ends     map[int]bool
	most     int // larger counts are equivalent
}

var errLarge = errors.New("it takes too many states")

// Automaton makes the automaton of a language, if it takes no more than limit states. Word
// boundaries and lines are errors.
func (l Language) Automaton(limit int) (Automaton, error) {
	b := &builder{Language: l, trie: []map[rune]int{{}}, ends: map[int]bool{}, most: max(l.Min, l.Max+1)}
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
	for _, s := range l.Except {
		at := 0
		for _, r := range s {
			to, ok := b.trie[at][r]
			if !ok {
				to = len(b.trie)
				b.trie = append(b.trie, map[rune]int{})
				b.trie[at][r] = to
			}
			at = to
		}
		b.ends[at] = true
	}
	a, err := b.run(limit + len(b.trie))
	if err != nil && len(b.machines) == 1 && b.most == 0 && len(l.Match) == 1 && len(l.Except) == 0 && len(b.machines[0].prog.Inst) <= maxInstructions {
		return nondeterministic(b.machines[0].prog), nil
	}
	return a, err
}

// maxInstructions bounds nondeterministic automata.
const maxInstructions = 2000

// nondeterministic is the automaton of one expression whose states are its instructions. They
// don't multiply, but the edges of a state may have characters in common.
func nondeterministic(prog *syntax.Prog) Automaton {
	full := []rune{0, unicode.MaxRune}
	const rest, first, before = 0, 1, 2 // anything may follow; the beginning; a match may begin here
	states := Automaton{rest: {}, first: {}, before: {}}
	index := map[uint32]int{}
	var queue []uint32
	fill := func(state int, pc uint32, begin bool) {
		s := State{}
		closure(prog, []uint32{pc}, begin, true, func(inst *syntax.Inst) { s.Accept = s.Accept || inst.Op == syntax.InstMatch })
		closure(prog, []uint32{pc}, begin, false, func(inst *syntax.Inst) {
			if inst.Op == syntax.InstMatch {
				s.Edges = append(s.Edges, Edge{full, rest})
				return
			}
			to, known := index[inst.Out]
			if !known {
				to = len(states)
				index[inst.Out] = to
				states = append(states, State{})
				queue = append(queue, inst.Out)
			}
			s.Edges = append(s.Edges, Edge{rangesOf(inst), to})
		})
		if state == first || state == before {
			s.Edges = append(s.Edges, Edge{full, before})
		}
		states[state] = s
	}
	states[rest] = State{Accept: true, Edges: []Edge{{full, rest}}}
	fill(first, uint32(prog.Start), true)
	fill(before, uint32(prog.Start), false)
	for len(queue) > 0 {
		pc := queue[0]
		queue = queue[1:]
		fill(index[pc], pc, false)
	}
	return states.pruned(first)
}

// rangesOf is the characters of an instruction.
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
	if len(b.Except) == 0 {
		first.node = -1
	}
	places := []place{first}
	index := map[string]int{first.key(): 0}
	var states Automaton
	for i := 0; i < len(places); i++ {
		if len(places) > limit {
			return nil, errLarge
		}
		s := State{Accept: b.accepts(&places[i])}
		edges := map[int]int{} // of targets to edges
		b.each(&places[i], func(low, high rune, next place) {
			key := next.key()
			to, ok := index[key]
			if !ok {
				to = len(places)
				index[key] = to
				places = append(places, next)
			}
			e, ok := edges[to]
			if !ok {
				e = len(s.Edges)
				edges[to] = e
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
	return states.pruned(0), nil
}

// key tells places apart.
func (p *place) key() string {
	var k []byte
	for _, seeds := range p.seeds {
		if seeds == nil {
			k = append(k, 1)
			continue
		}
		k = binary.AppendUvarint(append(k, 0), uint64(len(seeds)))
		for _, pc := range seeds {
			k = binary.AppendUvarint(k, uint64(pc))
		}
	}
	k = binary.AppendVarint(k, int64(p.count))
	k = binary.AppendVarint(k, int64(p.node))
	if p.begin {
		k = append(k, 1)
	}
	return string(k)
}

// closure calls f for what can be reached from seeds without a character.
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
	return p.count >= b.Min && (b.Max < 0 || p.count <= b.Max) && (p.node < 0 || !b.ends[p.node])
}

// each calls f for the characters that lead on from a place.
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
	if p.node >= 0 {
		for r := range b.trie[p.node] {
			cuts = append(cuts, r, r+1)
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
		next := place{count: count, node: -1, seeds: make([][]uint32, len(now))}
		if p.node >= 0 {
			if to, ok := b.trie[p.node][low]; ok {
				next.node = to
			}
		}
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

// appendCuts appends where the characters of an instruction begin and end.
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

// pruned is an automaton that begins in first, without the states from which no string ends and
// those that no string reaches.
func (a Automaton) pruned(first int) Automaton {
	alive := make([]bool, len(a))
	for again := true; again; {
		again = false
		for i := len(a) - 1; i >= 0; i-- {
			if !alive[i] && (a[i].Accept || slices.ContainsFunc(a[i].Edges, func(e Edge) bool { return alive[e.To] })) {
				alive[i], again = true, true
			}
		}
	}
	if len(a) == 0 || !alive[first] {
		return nil
	}
	number := map[int]int{first: 0}
	order := []int{first}
	var out Automaton
	for i := 0; i < len(order); i++ {
		s := a[order[i]]
		s.Edges = slices.DeleteFunc(slices.Clone(s.Edges), func(e Edge) bool { return !alive[e.To] })
		for j, e := range s.Edges {
			if _, known := number[e.To]; !known {
				number[e.To] = len(order)
				order = append(order, e.To)
			}
			s.Edges[j].To = number[e.To]
		}
		s.All = s.Accept && len(s.Edges) == 1 && s.Edges[0].To == i && slices.Equal(s.Edges[0].Ranges, []rune{0, unicode.MaxRune})
		out = append(out, s)
	}
	return out
}

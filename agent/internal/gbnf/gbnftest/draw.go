package gbnftest

import (
	"math/rand/v2"
	"strings"
)

// Drawer draws texts that a grammar admits.
type Drawer struct {
	*Grammar
	rng     *rand.Rand
	heights map[string]int // of rules: how deep the shortest way to a text is
	left    int
}

// Drawer makes a drawer of a grammar.
func (g *Grammar) Drawer(rng *rand.Rand) *Drawer {
	d := &Drawer{Grammar: g, rng: rng, heights: map[string]int{}}
	for changed := true; changed; {
		changed = false
		for name, e := range g.rules {
			if h := d.height(e) + 1; h < endless && (d.heights[name] == 0 || h < d.heights[name]) {
				d.heights[name] = h
				changed = true
			}
		}
	}
	return d
}

const endless = 1 << 20

// height is how deep an expression is at least.
func (d *Drawer) height(e expr) (h int) {
	switch e := e.(type) {
	case reference:
		if h = d.heights[string(e)]; h == 0 {
			return endless
		}
	case sequence:
		for _, x := range e {
			h = max(h, d.height(x))
		}
	case choice:
		h = endless
		for _, x := range e {
			h = min(h, d.height(x))
		}
	case repeat:
		if e.min > 0 {
			return d.height(e.of)
		}
	}
	return h
}

// Draw draws a text of a rule.
func (d *Drawer) Draw(rule string) string {
	var b strings.Builder
	d.left = 300
	d.write(&b, reference(rule))
	return b.String()
}

func (d *Drawer) write(b *strings.Builder, e expr) {
	d.left--
	switch e := e.(type) {
	case class:
		b.WriteRune(d.char(e))
	case reference:
		d.write(b, d.rules[string(e)])
	case sequence:
		for _, x := range e {
			d.write(b, x)
		}
	case choice:
		pick := e[d.rng.IntN(len(e))]
		if d.left < 0 || d.height(pick) >= endless {
			for _, x := range e {
				if d.height(x) < d.height(pick) {
					pick = x
				}
			}
		}
		d.write(b, pick)
	case repeat:
		n := e.min
		for d.left > 0 && (e.max < 0 || n < e.max) && d.rng.IntN(3) > 0 && d.height(e.of) < endless {
			n++
		}
		for range n {
			d.write(b, e.of)
		}
	}
}

func (d *Drawer) char(c class) rune {
	const some = "ab1 x9\"\\é日<"
	if !c.not && d.rng.IntN(2) == 0 {
		i := 2 * d.rng.IntN(len(c.ranges)/2)
		return c.ranges[i] + rune(d.rng.IntN(int(min(c.ranges[i+1]-c.ranges[i]+1, 200))))
	}
	list := []rune(some)
	for range 100 {
		r := list[d.rng.IntN(len(list))]
		in := false
		for i := 0; i < len(c.ranges); i += 2 {
			in = in || c.ranges[i] <= r && r <= c.ranges[i+1]
		}
		if in != c.not {
			return r
		}
	}
	if c.not {
		return 'ж'
	}
	return c.ranges[0]
}

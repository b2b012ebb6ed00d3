package llama

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// f16 is the nearest F16 of a number that has one.
func f16(x float64) uint16 {
	switch {
	case math.IsNaN(x):
		return 0x7e00
	case x < 0:
		return 0x8000 | f16(-x)
	case x == 0:
		return 0
	case math.IsInf(x, 0):
		return 0x7c00
	}
	frac, exp := math.Frexp(x) // frac in [0.5, 1)
	if exp < -13 {
		return uint16(math.RoundToEven(math.Ldexp(x, 24)))
	}
	return uint16((exp+14)<<10) + uint16(math.RoundToEven(math.Ldexp(frac, 11))) - 1<<10
}

// fromF16 is exact.
func fromF16(h uint16) float64 {
	sign, exp, frac := 1-2*float64(h>>15), int(h>>10&31), float64(h&1023)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(frac+1024, exp-25)
}

func TestF16GoesBothWays(t *testing.T) {
	for h := range 1 << 16 {
		if x := fromF16(uint16(h)); !math.IsNaN(x) && f16(x) != uint16(h) && h != 0x8000 {
			t.Fatalf("%#04x is %v, and that is %#04x", h, x, f16(x))
		}
	}
}

const unseen = 0xfc00 // -Inf

// keptAs is how keys and values of a type lie in the cache: blocks of so many values
// and bytes. random writes a block of numbers as models have them, put the same number
// everywhere in it, and get reads one.
type keptAs struct {
	values, bytes int
	random        func(block []byte, r *rand.Rand)
	put           func(block []byte, x float64)
	get           func(block []byte, i int) float64
}

var keptTypes = map[string]keptAs{
	"f16": single(2, func(b []byte, x float64) { binary.LittleEndian.PutUint16(b, f16(x)) },
		func(b []byte) float64 { return fromF16(binary.LittleEndian.Uint16(b)) }),
	"bf16": single(2, func(b []byte, x float64) { binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(float32(x))>>16)) },
		func(b []byte) float64 {
			return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
		}),
	"q8_0": blocks(34, 1./64, func(b []byte, i int) float64 { return float64(int8(b[i])) }),
	// One of the types that ggml converts.
	"q4_0": blocks(18, 1./4, func(b []byte, i int) float64 { return float64(b[i%16]>>(i/16*4)&15) - 8 }),
}

// single is a type of single values.
func single(size int, put func([]byte, float64), get func([]byte) float64) keptAs {
	return keptAs{1, size, func(b []byte, r *rand.Rand) { put(b, r.NormFloat64()) }, put, func(b []byte, _ int) float64 { return get(b) }}
}

// blocks is a type of 32 values with a common factor before them, about so large.
func blocks(size int, factor float64, get func(numbers []byte, i int) float64) keptAs {
	put := func(b []byte, x float64) {
		binary.LittleEndian.PutUint16(b, f16(x))
		for i := range b[2:] {
			b[2+i] = 0x11
		}
	}
	return keptAs{
		values: 32, bytes: size, put: put,
		random: func(b []byte, r *rand.Rand) {
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			binary.LittleEndian.PutUint16(b, f16(factor*(0.5+r.Float64())))
		},
		get: func(b []byte, i int) float64 { return fromF16(binary.LittleEndian.Uint16(b)) * get(b[2:], i) },
	}
}

// at is the i-th value of keys or values.
func (a *attention) at(kept []byte, i int) float64 {
	t := keptTypes[a.kvType]
	return t.get(kept[i/t.values*t.bytes:][:t.bytes], i%t.values)
}

// exact is the definition, in float64 and only over the cells that are seen.
func (a *attention) exact() []float64 {
	out := make([]float64, a.rows*a.heads*a.dv)
	for row := range a.rows {
		for h := range a.heads {
			weights, sum, top := make([]float64, a.cells), 0.0, math.Inf(-1)
			kv := h / (a.heads / a.kvHeads)
			for c := range a.cells {
				if a.mask[row*a.cells+c] == unseen {
					continue
				}
				for d := range a.dk {
					weights[c] += float64(a.q[(row*a.heads+h)*a.dk+d]) * a.at(a.k, (c*a.kvHeads+kv)*a.dk+d)
				}
				weights[c] *= float64(a.scale)
				top = math.Max(top, weights[c])
			}
			if a.sinks != nil {
				top = math.Max(top, float64(a.sinks[h]))
				sum = math.Exp(float64(a.sinks[h]) - top)
			}
			o := out[(row*a.heads+h)*a.dv:][:a.dv]
			for c := range a.cells {
				if a.mask[row*a.cells+c] == unseen {
					continue
				}
				w := math.Exp(weights[c] - top)
				sum += w
				for d := range o {
					o[d] += w * a.at(a.v, (c*a.kvHeads+kv)*a.dv+d)
				}
			}
			if sum == 0 {
				continue
			}
			for d := range o {
				o[d] /= sum
			}
		}
	}
	return out
}

// random fills a with numbers as models have them and a mask where nothing is seen.
func (a *attention) random(r *rand.Rand) {
	kept := func(n int) []byte {
		t := keptTypes[a.kvType]
		s := make([]byte, n/t.values*t.bytes)
		for block := range slices.Chunk(s, t.bytes) {
			t.random(block, r)
		}
		return s
	}
	a.q = make([]float32, a.rows*a.heads*a.dk)
	for i := range a.q {
		a.q[i] = float32(r.NormFloat64())
	}
	a.k, a.v = kept(a.cells*a.kvHeads*a.dk), kept(a.cells*a.kvHeads*a.dv)
	a.mask = make([]uint16, a.rows*a.cells)
	for i := range a.mask {
		a.mask[i] = unseen
	}
	a.scale = float32(2 / math.Sqrt(float64(a.dk)))
}

// see shows a row the cells [from, to).
func (a *attention) see(row, from, to int) {
	for c := from; c < to; c++ {
		a.mask[row*a.cells+c] = 0
	}
}

// masks are the ways in which rows see cells.
var masks = map[string]func(a *attention, r *rand.Rand){
	"everything": func(a *attention, _ *rand.Rand) {
		for row := range a.rows {
			a.see(row, 0, a.cells)
		}
	},
	"nothing for some rows": func(a *attention, _ *rand.Rand) {
		for row := 0; row < a.rows; row += 2 {
			a.see(row, 3, 70)
		}
	},
	"a prompt of many tokens": func(a *attention, _ *rand.Rand) {
		for row := range a.rows {
			a.see(row, 5, a.cells-a.rows+row+1)
		}
	},
	"candidates of prompts, grown together": func(a *attention, _ *rand.Rand) {
		for row := range a.rows {
			prompt := row / 4 * 40 % 100
			a.see(row, 0, 45)
			a.see(row, 50+prompt, 50+prompt+37)
			for c := 150 + row; c < a.cells; c += a.rows {
				a.see(row, c, c+1)
			}
		}
	},
	"prompts computed a few tokens at a time": func(a *attention, _ *rand.Rand) {
		for row := range a.rows {
			for c := row % 3 * 7; c+7 < a.cells-40; c += 21 {
				a.see(row, c, c+7)
			}
			a.see(row, a.cells-40, a.cells-40+row%30)
		}
	},
	"single cells anywhere": func(a *attention, r *rand.Rand) {
		for row := range a.rows {
			for range r.IntN(100) {
				c := r.IntN(a.cells)
				a.see(row, c, c+1)
			}
		}
	},
	"runs anywhere": func(a *attention, r *rand.Rand) {
		for row := range a.rows {
			for range r.IntN(8) {
				c := r.IntN(a.cells)
				a.see(row, c, min(a.cells, c+r.IntN(60)))
			}
		}
	},
}

// versions calls f for each kernel that this CPU can run.
func versions(t *testing.T, a *attention, f func(t *testing.T, got []float32)) {
	t.Helper()
	for version := 0; ; version++ {
		got := a.compute(version)
		if got == nil {
			if version == 0 {
				t.Log("this CPU has neither AVX-512 nor AVX2: nothing to test")
			}
			return
		}
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			asBits := *a
			asBits.bits = true
			for i, x := range asBits.compute(version) {
				if math.Float32bits(x) != math.Float32bits(got[i]) {
					t.Fatalf("value %d is %v, and %v with the mask as bits", i, got[i], x)
				}
			}
			f(t, got)
		})
	}
}

var shapes = []attention{
	{rows: 1, cells: 256, heads: 2, kvHeads: 1, dk: 64, dv: 64, groups: 1},
	{rows: 7, cells: 256, heads: 4, kvHeads: 2, dk: 64, dv: 64, groups: 2},
	{rows: 64, cells: 512, heads: 4, kvHeads: 4, dk: 128, dv: 128, groups: 1},
	{rows: 100, cells: 288, heads: 6, kvHeads: 2, dk: 80, dv: 48, groups: 3},
	{rows: 130, cells: 256, heads: 8, kvHeads: 1, dk: 16, dv: 32, groups: 200},
	{rows: 20, cells: 2240, heads: 2, kvHeads: 1, dk: 32, dv: 32, groups: 2}, // more tiles than the planner reads at a time
}

func TestSharedAttentionIsTheExactOne(t *testing.T) {
	for name, mask := range masks {
		for i, shape := range shapes {
			for _, sinks := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/shape %d/sinks %v", name, i, sinks), func(t *testing.T) {
					a := shape
					a.kvType = "f16"
					sharedIsExact(t, &a, uint64(i), mask, sinks)
				})
			}
		}
	}
}

func TestSharedAttentionReadsKeysAndValuesOfEveryType(t *testing.T) {
	for name := range keptTypes {
		t.Run(name, func(t *testing.T) {
			a := attention{kvType: name, rows: 40, cells: 256, heads: 4, kvHeads: 2, dk: 96, dv: 64, groups: 2}
			sharedIsExact(t, &a, 1, masks["candidates of prompts, grown together"], false)
		})
	}
}

func sharedIsExact(t *testing.T, a *attention, seed uint64, mask func(*attention, *rand.Rand), sinks bool) {
	r := rand.New(rand.NewPCG(1, seed))
	a.random(r)
	if sinks {
		for range a.heads {
			a.sinks = append(a.sinks, float32(4*r.NormFloat64()))
		}
	}
	mask(a, r)
	want := a.exact()
	versions(t, a, func(t *testing.T, got []float32) {
		for j := range want {
			if diff := math.Abs(float64(got[j]) - want[j]); !(diff < 5e-6) {
				t.Fatalf("value %d is %v, want %v", j, got[j], want[j])
			}
		}
	})
}

func TestWhatARowDoesNotSeeNeverHarmsIt(t *testing.T) {
	for _, bad := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		for name, mask := range masks {
			t.Run(fmt.Sprint(bad, " ", name), func(t *testing.T) {
				a := shapes[1]
				a.kvType = "f16"
				harmless(t, &a, bad, mask)
			})
		}
		for name := range keptTypes {
			t.Run(fmt.Sprint(bad, " ", name), func(t *testing.T) {
				a := shapes[1]
				a.kvType = name
				harmless(t, &a, bad, masks["runs anywhere"])
			})
		}
	}
}

// harmless gives one cell bad numbers.
func harmless(t *testing.T, a *attention, bad float64, mask func(*attention, *rand.Rand)) {
	r := rand.New(rand.NewPCG(2, 2))
	a.random(r)
	mask(a, r)
	const victim = 140
	kept := keptTypes[a.kvType]
	for _, list := range [][]byte{a.k, a.v} {
		size := len(list) / a.cells
		for block := range slices.Chunk(list[victim*size:][:size], kept.bytes) {
			kept.put(block, bad)
		}
	}
	want := a.exact()
	versions(t, a, func(t *testing.T, got []float32) {
		for row := range a.rows {
			sees := a.mask[row*a.cells+victim] == 0
			for j := row * a.heads * a.dv; j < (row+1)*a.heads*a.dv; j++ {
				broken := math.IsNaN(float64(got[j])) || math.IsInf(float64(got[j]), 0)
				if sees && !broken {
					t.Fatalf("row %d sees what is no number, and value %d is %v", row, j, got[j])
				}
				if !sees && !(math.Abs(float64(got[j])-want[j]) < 5e-6) {
					t.Fatalf("row %d does not see it, and value %d is %v instead of %v", row, j, got[j], want[j])
				}
			}
		}
	})
}

// BenchmarkSharedAttention is one layer of a decode step of 16 agents with 4
// candidates each, on one thread: 300 cells in common, 600 for each prompt, 20 for each
// candidate.
func BenchmarkSharedAttention(b *testing.B) {
	for _, shape := range []attention{
		{heads: 4, kvHeads: 2, dk: 64, dv: 64},
		{heads: 16, kvHeads: 8, dk: 128, dv: 128},
	} {
		for _, kvType := range []string{"f16", "q8_0"} {
			a := shape
			a.kvType = kvType
			a.rows, a.cells, a.groups = 64, 300+16*600+20*64+4, 1
			a.random(rand.New(rand.NewPCG(1, 1)))
			for row := range a.rows {
				a.see(row, 0, 300)
				a.see(row, 300+row/4*600, 300+row/4*600+600)
				for c := 300 + 16*600 + row; c < a.cells-4; c += a.rows {
					a.see(row, c, c+1)
				}
			}
			for version := 0; a.compute(version) != nil; version++ {
				b.Run(fmt.Sprintf("heads=%d/%s/version=%d", a.heads, kvType, version), func(b *testing.B) {
					for b.Loop() {
						a.compute(version)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(a.rows*a.heads*920), "ns/cell")
				})
			}
		}
	}
}

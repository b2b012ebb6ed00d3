//go:build !race

package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// mutate damages a body in one to three places.
func mutate(r *rand.Rand, body []byte) []byte {
	out := bytes.Clone(body)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(out))
		switch r.IntN(5) {
		case 0: // another byte
			out[at] = byte(r.IntN(256))
		case 1: // cut off
			out = out[:at+1]
		case 2: // a part twice
			end := at + r.IntN(len(out)-at)
			out = append(out[:end:end], out[at:]...)
		case 3: // a part missing
			end := min(at+1+r.IntN(20), len(out))
			out = append(out[:at:at], out[end:]...)
			if len(out) == 0 {
				return []byte{0}
			}
		case 4: // a structural character
			out[at] = `{}[],:"\`[r.IntN(8)]
		}
	}
	return out
}

func TestMutatedBodiesGetTheirProblems(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for file, body := range seeds(t) {
		rejected := 0
		for _, c := range codecs {
			if !c.check(t, body) {
				continue // a body of another model
			}
			for range 200 {
				if !c.check(t, mutate(r, body)) {
					rejected++
				}
			}
		}
		if rejected == 0 {
			t.Errorf("no mutation of %s was rejected", file)
		}
	}
}

func TestHostileBodiesUseLittleMemory(t *testing.T) {
	const size = 2 << 20
	fill := func(part string) string { return strings.Repeat(part, size/len(part)) }
	var wide strings.Builder
	for i := 0; wide.Len() < size; i++ {
		fmt.Fprintf(&wide, `"%x":0,`, i)
	}
	for _, c := range []struct{ name, body string }{
		{"inputs without fields", requestOf(fill(`{},`) + `{}`)},
		{"inputs of a wrong type", requestOf(fill(`1,`) + `1`)},
		{"tools", inputWith(`"tools":[` + fill(`{},`) + `{}]`)},
		{"a wide object", inputWith(`"memory":{` + wide.String() + `"x":0}`)},
		{"a wide unknown object", `{"x":{` + wide.String() + `"x":0}}`},
		{"unknown fields", `{` + wide.String() + `"x":0}`},
		{"a long name", `{"` + fill(`x`) + `":0}`},
		{"a long escaped name", `{"` + fill(`\u0078`) + `":0}`},
		{"whitespace", `{"a":` + fill(" ") + `0}`},
		{"brackets", fill(`[`)},
		{"braces", fill(`{"a":`)},
		{"a number", inputWith(`"num_outputs":` + fill(`1`))},
		{"quotes", fill(`"`)},
		{"backslashes", `{"a":"` + fill(`\\`)},
		{"raw numbers", inputWith(`"memory":{"a":[` + fill(`0,`) + `0]}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := []byte(c.body)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := DecodeAgentRequest(body)
			runtime.ReadMemStats(&after)
			// What a decoder may take: a copy of the body and of one text in
			// it, and what the limits allow.
			const limits = 128 << 20
			if got := after.TotalAlloc - before.TotalAlloc; got > uint64(4*len(body)+limits) {
				t.Errorf("a body of %d MiB took %d MiB", len(body)>>20, got>>20)
			}
			if err == nil {
				return
			}
			summary(t, err)
			var ps Problems
			if errors.As(err, &ps) && len(ps.AppendBody(nil)) > 64<<10 {
				t.Errorf("the error body has %d bytes", len(ps.AppendBody(nil)))
			}
		})
	}
}

package synth

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

func TestMXFP4EqualsThatOfGGML(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, 4096*blockSize)
	for i := range values {
		scale := math.Ldexp(1, i/blockSize%60-30)
		switch i / blockSize % 4 {
		case 0:
			values[i] = float32(scale * r.NormFloat64())
		case 1: // half of them are between two codes
			values[i] = float32(scale * float64(r.IntN(33)-16) / 4)
		case 2: // neighbors of these; ggml's log2f rounds that of the number before a power of two up
			if i%blockSize == 0 {
				values[i] = float32(4 * scale)
				continue
			}
			values[i] = math.Nextafter32(float32(scale*float64(r.IntN(33)-16)/4), float32(r.NormFloat64()))
		case 3:
			values[i] = 0
		}
	}
	size := len(values) / blockSize * blockBytes
	want, got := make([]byte, size), make([]byte, size)
	quantize(matrixTypes["mxfp4"][1], want, values, 1, len(values))
	toMXFP4(got, values)
	for at := 0; at < size; at += blockBytes {
		if a, b := want[at:at+blockBytes], got[at:at+blockBytes]; !bytes.Equal(a, b) {
			first := at / blockBytes * blockSize
			t.Fatalf("%v: bytes %x, want %x", values[first:first+blockSize], b, a)
		}
	}
}

func BenchmarkMXFP4(b *testing.B) {
	values := make([]float32, chunkRows*2880)
	source := newSource(1, "")
	source.fill(values, 0, 0.1)
	out := make([]byte, len(values)/blockSize*blockBytes)
	b.SetBytes(int64(len(out)))
	b.Run("own", func(b *testing.B) {
		for b.Loop() {
			toMXFP4(out, values)
		}
	})
	b.Run("ggml", func(b *testing.B) {
		for b.Loop() {
			quantize(matrixTypes["mxfp4"][1], out, values, chunkRows, 2880)
		}
	})
	b.Run("fill", func(b *testing.B) {
		for b.Loop() {
			source.fill(values, 0, 0.1)
		}
	})
}

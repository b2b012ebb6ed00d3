package agent

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// seeds derives the seeds of an input's candidates from the server's seed, the request's id and
// the input's id. The first four bytes of their SHA-256 start a counter, and a bijection scatters
// its numbers. So the seeds of an input are distinct, and the same request to a server with the
// same seed samples the same answers.
func seeds(server uint64, requestID string, inputID int64, n int) []uint32 {
	text := binary.LittleEndian.AppendUint64(make([]byte, 0, 24+len(requestID)), server)
	text = binary.LittleEndian.AppendUint64(text, uint64(inputID))
	text = append(text, requestID...)
	sum := sha256.Sum256(text)
	start := binary.LittleEndian.Uint32(sum[:])
	out := make([]uint32, n)
	for i := range out {
		out[i] = scatter(start + uint32(i))
		if out[i] == math.MaxUint32 { // llama.cpp's "choose one at random"
			out[i] = scatter(start - 1)
		}
	}
	return out
}

// scatter is the finalizer of MurmurHash3, a bijection of 32-bit numbers.
func scatter(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x85ebca6b
	x ^= x >> 13
	x *= 0xc2b2ae35
	return x ^ x>>16
}

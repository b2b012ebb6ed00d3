package agent

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// seeds derives n distinct seeds for an input's candidates. The first 4 bytes of a SHA-256 of the server's seed, the
// request's id and the input's id start a counter; scatter maps each of its values to a seed.
func seeds(server uint64, requestID string, inputID int64, n int) []uint32 {
	text := binary.LittleEndian.AppendUint64(make([]byte, 0, 24+len(requestID)), server)
	text = binary.LittleEndian.AppendUint64(text, uint64(inputID))
	text = append(text, requestID...)
	sum := sha256.Sum256(text)
	start := binary.LittleEndian.Uint32(sum[:])
	out := make([]uint32, n)
	for i := range out {
		out[i] = scatter(start + uint32(i))
	}
	return out
}

// session names the run of an input: a hash of what the prompts of all turns of the run begin with.
func session(in *inputRun) string {
	h := sha256.New()
	for _, rule := range in.memory.Rules {
		_, _ = h.Write(append([]byte(rule), 0)) // a hash never fails
	}
	first := in.input.Instruction.Content
	if turns := in.memory.History; len(turns) > 0 {
		first = turns[0].Content
	}
	_, _ = h.Write([]byte(first))
	if name := in.adapter.Name; name != "" { // another adapter shares no prefix
		_, _ = h.Write(append([]byte{0}, name...))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// scatter is a bijection of 32-bit numbers: the finalizer of MurmurHash3.
func scatter(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x85ebca6b
	x ^= x >> 13
	x *= 0xc2b2ae35
	return x ^ x>>16
}

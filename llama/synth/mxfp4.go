package synth

import "math"

// blockBytes is the size of a block of MXFP4: an exponent, and 4 bits for each of blockSize values.
const blockBytes = 1 + blockSize/2

// nearestE2M1 gives the code of the magnitude that is nearest to a, in units of a half of the smallest one, for
// a in (i, i+1]. Codes 0 to 7 are 0, 2, 4, 6, 8, 12, 16 and 24 of these units. A tie is rounded down.
var nearestE2M1 = [32]byte{0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}

// toMXFP4 converts values, whose number is a multiple of blockSize, to the bytes that ggml's reference code gives
// (quantize_row_mxfp4_ref), in a third of its time: that compares each value with all 16 codes. The format is MXFP4 of
// the OCP Microscaling Formats specification 1.0; the scale lets the largest magnitude of a block be 4 to 8. ggml
// stores value i of a block in the low half of byte i, and value i+16 in the high half.
func toMXFP4(out []byte, values []float32) {
	for len(out) > 0 {
		block, bytes := values[:blockSize], out[:blockBytes]
		values, out = values[blockSize:], out[blockBytes:]
		largest := uint32(0)
		for _, v := range block {
			largest = max(largest, math.Float32bits(v)&^(1<<31))
		}
		exponent := int(largest>>23) - 2 // biased by 127, as in float32
		if exponent < 2 {                // the block is zero, or smaller than any weight
			clear(bytes)
			continue
		}
		bytes[0] = byte(exponent)
		inverse := float32(math.Ldexp(4, 127-exponent)) // 4 / scale: the smallest magnitude is a half
		for i := range blockSize / 2 {
			bytes[1+i] = codeE2M1(block[i]*inverse) | codeE2M1(block[i+blockSize/2]*inverse)<<4
		}
	}
}

// codeE2M1 is the code of v, in the units of nearestE2M1.
func codeE2M1(v float32) byte {
	bits := math.Float32bits(v)
	a := math.Float32frombits(bits &^ (1 << 31))
	n := int32(a)
	if float32(n) == a {
		n-- // the interval ends here
	}
	code := nearestE2M1[max(n, 0)&31]
	if code == 0 {
		return 0 // ggml has no negative zero
	}
	return code | byte(bits>>31)<<3
}

package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"agentd/llama/internal/gguf"
)

// ggmlTypes has the element types that are not converted.
var ggmlTypes = map[string]uint32{"F32": gguf.F32, "F16": gguf.F16, "BF16": gguf.BF16}

// Blocks of MXFP4: 32 elements in 16 bytes, and a byte for their scale.
const (
	mxfp4Elements = 32
	mxfp4Bytes    = 16
)

// keepsType reports whether a tensor keeps its type. As llama.cpp's converter, we write vectors,
// norms, biases and the experts' router as F32.
func keepsType(name string, shape []int64) bool {
	return len(shape) > 1 && !strings.HasSuffix(name, ".bias") &&
		!strings.HasSuffix(name, "_norm.weight") && !strings.HasSuffix(name, "ffn_gate_inp.weight") && !strings.HasSuffix(name, "ssm_conv1d.weight")
}

// rearrange makes one tensor of the file from several stored ones of equal shape and type. change converts
// the bytes of one element of the outermost dimension to bytes of the result.
func rearrange(name string, shape []int64, parts []*stored, change func(row []byte) []byte) (gguf.Tensor, error) {
	s := parts[0]
	kind, known := ggmlTypes[s.dtype]
	if !known {
		return gguf.Tensor{}, fmt.Errorf("its type is %s; F32, F16, BF16 and GPT-OSS' MXFP4 are known", s.dtype)
	}
	widen := func(b []byte) []byte { return b }
	if !keepsType(name, shape) && kind != gguf.F32 {
		kind, widen = gguf.F32, func(b []byte) []byte { return widened(b, wideners[s.dtype]) }
	}
	return gguf.Tensor{Name: name, Kind: kind, Shape: shape, Data: func(w io.Writer) error {
		for _, p := range parts {
			if err := eachRow(p, func(row []byte) error {
				_, err := w.Write(widen(change(row)))
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

// eachRow calls f with the bytes of each element of the outermost dimension.
func eachRow(s *stored, f func(row []byte) error) error {
	row := make([]byte, s.rowSize())
	for i := range s.shape[0] {
		if s.order != nil {
			i = s.order(i)
		}
		if _, err := s.file.ReadAt(row, s.offset+i*s.rowSize()); err != nil {
			return fmt.Errorf("%s: tensor %s: %w", s.file.Name(), s.name, err)
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return nil
}

var wideners = map[string]func(uint16) float32{
	"BF16": func(v uint16) float32 { return math.Float32frombits(uint32(v) << 16) }, "F16": fromF16,
}

func widened(b []byte, value func(uint16) float32) []byte {
	out := make([]byte, 0, 2*len(b))
	for i := 0; i < len(b); i += 2 {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(value(binary.LittleEndian.Uint16(b[i:]))))
	}
	return out
}

// fromF16 converts a number from IEEE 754 binary16.
func fromF16(v uint16) float32 {
	sign, exponent, fraction := uint32(v>>15)<<31, uint32(v>>10&31), uint32(v&1023)
	switch exponent {
	case 0:
		f := float32(fraction) / (1 << 24)
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 255<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

func same(row []byte) []byte { return row }

// pieces concatenates count pieces of a row, which has pieces of size bytes: the i-th is the row's piece from(i).
func pieces(row []byte, count, size int, from func(i int) int) []byte {
	out := make([]byte, 0, count*size)
	for i := range count {
		at := from(i) * size
		out = append(out, row[at:at+size]...)
	}
	return out
}

// plain returns a tensor as it is stored.
func plain(name string, s *stored) (gguf.Tensor, error) {
	return rearrange(name, s.shape, []*stored{s}, same)
}

// stacked returns one tensor of the matrices of all experts.
func stacked(name string, parts []*stored) (gguf.Tensor, error) {
	for _, p := range parts {
		if !slices.Equal(p.shape, parts[0].shape) || p.dtype != parts[0].dtype {
			return gguf.Tensor{}, errors.New("the experts have different shapes or types")
		}
	}
	return rearrange(name, append([]int64{int64(len(parts))}, parts[0].shape...), parts, same)
}

// permuted interleaves the two halves of each head's rows: RoPE rotates adjacent rows in llama.cpp, and
// rows of the two halves in transformers.
func permuted(name string, s *stored, heads int) (gguf.Tensor, error) {
	if heads <= 0 || s.shape[0]%int64(2*heads) != 0 {
		return gguf.Tensor{}, fmt.Errorf("%d rows can't be halves of %d heads", s.shape[0], heads)
	}
	// One row is a head.
	byHead := *s
	size := s.shape[0] / int64(heads)
	byHead.shape = append([]int64{int64(heads), size}, s.shape[1:]...)
	rows, row := int(size), int(s.rowSize())
	return rearrange(name, s.shape, []*stored{&byHead}, func(head []byte) []byte {
		return pieces(head, rows, row, func(i int) int { return i%2*(rows/2) + i/2 })
	})
}

// choice selects some of n rows: the first, their distance, and their number.
type choice func(n int) (first, step, count int)

func all(n int) (int, int, int) { return 0, 1, n }

func halves(i int) choice {
	return func(n int) (int, int, int) { return i * (n / 2), 1, n / 2 }
}

func everyOther(i int) choice {
	return func(n int) (int, int, int) { return i, 2, n / 2 }
}

// taken returns the selected rows of each expert's matrix.
func taken(name string, s *stored, take choice) (gguf.Tensor, error) {
	if len(s.shape) < 2 || s.shape[1]%2 != 0 {
		return gguf.Tensor{}, fmt.Errorf("its shape is %v", s.shape)
	}
	rows := int(s.shape[1])
	first, step, count := take(rows)
	shape := slices.Clone(s.shape)
	shape[1] = int64(count)
	return rearrange(name, shape, []*stored{s}, func(expert []byte) []byte {
		return pieces(expert, count, len(expert)/rows, func(i int) int { return first + i*step })
	})
}

// transposed returns the selected columns of each expert's matrix as rows.
func transposed(name string, s *stored, take choice) (gguf.Tensor, error) {
	if len(s.shape) != 3 {
		return gguf.Tensor{}, fmt.Errorf("its shape is %v", s.shape)
	}
	rows, columns, size := int(s.shape[1]), int(s.shape[2]), int(dtypes[s.dtype])
	first, step, count := take(columns)
	return rearrange(name, []int64{s.shape[0], int64(count), int64(rows)}, []*stored{s}, func(expert []byte) []byte {
		out := make([]byte, 0, count*rows*size)
		for i := range count {
			for r := range rows {
				at := (r*columns + first + i*step) * size
				out = append(out, expert[at:at+size]...)
			}
		}
		return out
	})
}

// constant returns a vector of values that are not in the checkpoint.
func constant(name string, values []float32) gguf.Tensor {
	return gguf.Tensor{Name: name, Kind: gguf.F32, Shape: []int64{int64(len(values))}, Data: func(w io.Writer) error {
		return binary.Write(w, binary.LittleEndian, values)
	}}
}

// mxfp4 returns the selected rows of each expert's matrix. GPT-OSS's checkpoint has blocks [expert, row, block, 16]
// and separate scales [expert, row, block]; a byte has two adjacent elements. A block of ggml begins with
// its scale; byte i has the elements i and i + 16.
func mxfp4(name string, blocks, scales *stored, take choice) (gguf.Tensor, error) {
	if scales == nil || blocks.dtype != "U8" || scales.dtype != "U8" || len(blocks.shape) != 4 || blocks.shape[3] != mxfp4Bytes ||
		!slices.Equal(scales.shape, blocks.shape[:3]) {
		return gguf.Tensor{}, errors.New("its blocks and scales are not MXFP4's")
	}
	rows, perRow := int(blocks.shape[1]), int(blocks.shape[2])
	first, step, count := take(rows)
	shape := []int64{blocks.shape[0], int64(count), int64(perRow * mxfp4Elements)}
	return gguf.Tensor{Name: name, Kind: gguf.MXFP4, Shape: shape, Data: func(w io.Writer) error {
		scale, expert := make([]byte, scales.rowSize()), int64(0)
		return eachRow(blocks, func(block []byte) error {
			if _, err := scales.file.ReadAt(scale, scales.offset+expert*scales.rowSize()); err != nil {
				return fmt.Errorf("%s: tensor %s: %w", scales.file.Name(), scales.name, err)
			}
			expert++
			out := make([]byte, 0, count*perRow*(mxfp4Bytes+1))
			for i := range count {
				for b := range perRow {
					at := (first+i*step)*perRow + b
					out = appendMXFP4(append(out, scale[at]), block[at*mxfp4Bytes:(at+1)*mxfp4Bytes])
				}
			}
			_, err := w.Write(out)
			return err
		})
	}}, nil
}

// appendMXFP4 appends the 32 elements of a block. In the checkpoint, byte i/2 has element i, with even i in its lower
// half.
func appendMXFP4(out, block []byte) []byte {
	at := func(i int) byte { return block[i/2] >> (4 * (i % 2)) & 15 }
	for i := range mxfp4Bytes {
		out = append(out, at(i)|at(i+mxfp4Bytes)<<4)
	}
	return out
}

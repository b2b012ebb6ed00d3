// Package gguf writes GGUF files of version 3, by the specification in ggml's docs/gguf.md. Numbers are little-endian.
package gguf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"reflect"
	"slices"
)

// Element types (ggml_type).
const (
	F32   = 0
	F16   = 1
	Q8    = 8 // Q8_0
	BF16  = 30
	MXFP4 = 39
)

// Token types (llama_token_type).
const (
	Normal      = 1
	Control     = 3
	UserDefined = 4
	Unused      = 5
)

// blocks has the number of elements and of bytes in a block of each type.
var blocks = map[uint32][2]int64{F32: {1, 4}, F16: {1, 2}, Q8: {32, 34}, BF16: {1, 2}, MXFP4: {32, 17}}

// Tensor is a tensor of a file.
type Tensor struct {
	Name  string
	Kind  uint32                  // element type
	Shape []int64                 // outermost first
	Data  func(w io.Writer) error // writes Size bytes
}

// Elements returns the number of values.
func (t *Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Size returns the number of bytes of the data, without Padding.
func (t *Tensor) Size() int64 { return t.Elements() / blocks[t.Kind][0] * blocks[t.Kind][1] }

// Padding returns the number of bytes that follow the n bytes of a tensor's data.
func Padding(n int64) int64 { return -n & 31 }

// Metadata collects the keys and values of a file.
type Metadata struct {
	values bytes.Buffer
	count  uint64
}

// kinds has the GGUF type of each kind of Go value. Integers and floats are written with 32 bits.
var kinds = map[reflect.Kind]uint32{
	reflect.Int: 4, reflect.Int32: 5, reflect.Float64: 6, reflect.Bool: 7, reflect.String: 8, reflect.Slice: 9,
}

// Set adds a value: an int (uint32 in the file), float64 (float32 in the file), bool or string, or a slice of int32,
// bool or string.
func (m *Metadata) Set(key string, value any) {
	m.count++
	m.put(key)
	v := reflect.ValueOf(value)
	m.put(kinds[v.Kind()])
	if v.Kind() == reflect.Slice {
		m.put(kinds[v.Type().Elem().Kind()])
		m.put(uint64(v.Len()))
	}
	m.put(value)
}

func (m *Metadata) put(value any) {
	switch v := value.(type) {
	case string:
		m.put(uint64(len(v)))
		m.values.WriteString(v)
	case []string:
		for _, text := range v {
			m.put(text)
		}
	case int:
		m.put(uint32(v))
	case float64:
		m.put(float32(v))
	default:
		_ = binary.Write(&m.values, binary.LittleEndian, v) // a buffer never fails
	}
}

// Write writes a file.
func (m *Metadata) Write(w io.Writer, list []Tensor) error {
	buffered := bufio.NewWriterSize(w, 1<<20)
	if err := m.WriteHead(buffered, list); err != nil {
		return err
	}
	for _, t := range list {
		if err := t.Data(buffered); err != nil {
			return err
		}
		if _, err := buffered.Write(make([]byte, Padding(t.Size()))); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// WriteHead writes everything before the tensors' data.
func (m *Metadata) WriteHead(w io.Writer, list []Tensor) error {
	head := &Metadata{}
	head.values.WriteString("GGUF")
	for _, v := range []any{uint32(3), uint64(len(list)), m.count, m.values.Bytes()} {
		head.put(v)
	}
	offset := int64(0)
	for _, t := range list {
		head.put(t.Name)
		head.put(uint32(len(t.Shape)))
		for _, n := range slices.Backward(t.Shape) {
			head.put(n)
		}
		head.put(t.Kind)
		head.put(offset)
		offset += t.Size() + Padding(t.Size())
	}
	if len(list) > 0 {
		head.values.Write(make([]byte, Padding(int64(head.values.Len()))))
	}
	_, err := w.Write(head.values.Bytes())
	return err
}

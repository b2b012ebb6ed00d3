package checkpoint

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
)

// Value types of a GGUF file.
const (
	ggufUint32 = 4
	ggufInt32  = 5
	ggufFloat  = 6
	ggufBool   = 7
	ggufString = 8
	ggufArray  = 9
)

// gguf collects the metadata of a GGUF file. All numbers are little-endian.
type gguf struct {
	values bytes.Buffer
	count  uint64
}

func (g *gguf) number(v any) { _ = binary.Write(&g.values, binary.LittleEndian, v) } // a buffer never fails

func (g *gguf) bytes(s string) {
	g.number(uint64(len(s)))
	g.values.WriteString(s)
}

func (g *gguf) key(key string, kind uint32) {
	g.count++
	g.bytes(key)
	g.number(kind)
}

func (g *gguf) text(key, value string) {
	g.key(key, ggufString)
	g.bytes(value)
}

func (g *gguf) uint32(key string, value int) {
	g.key(key, ggufUint32)
	g.number(uint32(value))
}

func (g *gguf) boolean(key string, value bool) {
	g.key(key, ggufBool)
	g.number(value)
}

func (g *gguf) texts(key string, values []string) {
	g.key(key, ggufArray)
	g.number(uint32(ggufString))
	g.number(uint64(len(values)))
	for _, v := range values {
		g.bytes(v)
	}
}

func (g *gguf) booleans(key string, values []bool) {
	g.key(key, ggufArray)
	g.number(uint32(ggufBool))
	g.number(uint64(len(values)))
	g.number(values)
}

func (g *gguf) int32s(key string, values []int32) {
	g.key(key, ggufArray)
	g.number(uint32(ggufInt32))
	g.number(uint64(len(values)))
	g.number(values)
}

func (g *gguf) float32(key string, value float64) {
	g.key(key, ggufFloat)
	g.number(float32(value))
}

// alignment of the tensors' data in the file.
const alignment = 32

func padding(n int64) int64 { return (alignment - n%alignment) % alignment }

// write writes the header, the metadata, the tensors' descriptions and their data.
func (g *gguf) write(w io.Writer, list []output) error {
	if err := g.writeHead(w, list); err != nil {
		return err
	}
	for _, o := range list {
		if err := o.write(w); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, padding(o.size()))); err != nil {
			return err
		}
	}
	return nil
}

// writeHead writes all but the tensors' data.
func (g *gguf) writeHead(w io.Writer, list []output) error {
	head := &gguf{}
	head.values.WriteString("GGUF")
	for _, v := range []any{uint32(3), uint64(len(list)), g.count} {
		head.number(v)
	}
	head.values.Write(g.values.Bytes())
	offset := int64(0)
	for _, o := range list {
		head.bytes(o.name)
		head.number(uint32(len(o.shape)))
		for _, n := range slices.Backward(o.shape) {
			head.number(uint64(n))
		}
		head.number(o.kind)
		head.number(uint64(offset))
		offset += o.size() + padding(o.size())
	}
	if len(list) > 0 {
		head.values.Write(make([]byte, padding(int64(head.values.Len()))))
	}
	_, err := w.Write(head.values.Bytes())
	return err
}

package hfvocab

import (
	"bytes"
	"encoding/binary"
	"io"
)

// Value types of a GGUF file.
const (
	ggufUint32 = 4
	ggufInt32  = 5
	ggufBool   = 7
	ggufString = 8
	ggufArray  = 9
)

// gguf collects the metadata of a GGUF file without tensors. All numbers are little-endian.
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

func (g *gguf) int32s(key string, values []int32) {
	g.key(key, ggufArray)
	g.number(uint32(ggufInt32))
	g.number(uint64(len(values)))
	g.number(values)
}

// write writes the header and the metadata.
func (g *gguf) write(w io.Writer) error {
	var head bytes.Buffer
	head.WriteString("GGUF")
	for _, v := range []any{uint32(3), uint64(0), g.count} {
		_ = binary.Write(&head, binary.LittleEndian, v)
	}
	if _, err := w.Write(head.Bytes()); err != nil {
		return err
	}
	_, err := w.Write(g.values.Bytes())
	return err
}

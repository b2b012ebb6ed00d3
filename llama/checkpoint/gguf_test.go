package checkpoint

import (
	"bytes"
	"encoding/binary"
	"testing"

	"agentd/llama/internal/gguf"
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

// arrayOf reads an array of texts of a GGUF file by its key.
func arrayOf(t *testing.T, data []byte, key string) []string {
	t.Helper()
	at := bytes.Index(data, []byte(key))
	if at < 0 {
		t.Fatalf("no key %s", key)
	}
	at += len(key)
	kind, element := binary.LittleEndian.Uint32(data[at:]), binary.LittleEndian.Uint32(data[at+4:])
	if kind != ggufArray || element != ggufString {
		t.Fatalf("%s has type %d of %d", key, kind, element)
	}
	list := make([]string, binary.LittleEndian.Uint64(data[at+8:]))
	at += 16
	for i := range list {
		n := int(binary.LittleEndian.Uint64(data[at:]))
		list[i] = string(data[at+8 : at+8+n])
		at += 8 + n
	}
	return list
}

// readTensor is a tensor of a GGUF file.
type readTensor struct {
	name  string
	kind  uint32
	shape []uint64 // innermost first
	data  []byte
}

// readTensors reads the tensors of a GGUF file.
func readTensors(t *testing.T, data []byte) (list []readTensor) {
	t.Helper()
	at := 4
	u32 := func() uint32 { at += 4; return binary.LittleEndian.Uint32(data[at-4:]) }
	u64 := func() uint64 { at += 8; return binary.LittleEndian.Uint64(data[at-8:]) }
	text := func() string { n := int(u64()); at += n; return string(data[at-n : at]) }
	u32()
	tensors, values := u64(), u64()
	sizes := map[uint32]int{0: 1, 1: 1, 2: 2, 3: 2, ggufUint32: 4, ggufInt32: 4, ggufFloat: 4, ggufBool: 1, 10: 8, 11: 8, 12: 8}
	for range values {
		text()
		kind, count := u32(), uint64(1)
		if kind == ggufArray {
			kind, count = u32(), u64()
		}
		for range count {
			if kind == ggufString {
				text()
			} else {
				at += sizes[kind]
			}
		}
	}
	var offsets []uint64
	for range tensors {
		o := readTensor{name: text()}
		for range u32() {
			o.shape = append(o.shape, u64())
		}
		o.kind = u32()
		offsets, list = append(offsets, u64()), append(list, o)
	}
	at += int(gguf.Padding(int64(at)))
	for i := range list {
		o := gguf.Tensor{Kind: list[i].kind}
		for _, n := range list[i].shape {
			o.Shape = append(o.Shape, int64(n))
		}
		begin := at + int(offsets[i])
		list[i].data = data[begin : begin+int(o.Size())]
	}
	return list
}

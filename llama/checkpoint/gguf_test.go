package checkpoint

import (
	"bytes"
	"encoding/binary"
	"testing"
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

//go:build !race

package rows

import (
	"bytes"
	"testing"

	"github.com/parquet-go/parquet-go"
)

func TestRowGroupsAreWrittenBeforeTheEnd(t *testing.T) {
	var out bytes.Buffer
	var write func(*chatRow) error
	end := into(&out, Parquet, secrets{}.replacer(), &write)
	noise := make([]byte, rowGroupBytes/4)
	for i := range 9 {
		for j := range noise {
			noise[j] = byte('a' + (j*j*7+i+j/251)%26)
		}
		if err := write(&chatRow{Messages: []message{{Content: string(noise)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() == 0 {
		t.Error("nothing was written before the end")
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || len(f.RowGroups()) < 2 {
		t.Errorf("%v, %v", f, err)
	}
}

package rows

import (
	"bufio"
	"io"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/parquet-go/parquet-go"
)

// into sets write to a writer of rows in a format, which takes keys out of them, and returns what
// ends it; nil for an unknown format.
func into[T any](w io.Writer, format string, keys *strings.Replacer, write *func(*T) error) (flush func() error) {
	switch format {
	case JSONL:
		b := bufio.NewWriter(w)
		*write = func(row *T) error {
			clean(reflect.ValueOf(row).Elem(), keys)
			if err := json.MarshalWrite(b, row); err != nil {
				return err
			}
			return b.WriteByte('\n')
		}
		return b.Flush
	case Parquet:
		p := parquet.NewGenericWriter[T](w, parquet.Compression(&parquet.Zstd))
		size := 0
		*write = func(row *T) error {
			size += clean(reflect.ValueOf(row).Elem(), keys)
			if _, err := p.Write([]T{*row}); err != nil || size < rowGroupBytes {
				return err
			}
			size = 0
			return p.Flush()
		}
		return p.Close
	}
	return nil
}

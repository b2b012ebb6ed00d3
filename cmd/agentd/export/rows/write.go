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
			clean(reflect.ValueOf(row).Elem(), keys)
			if _, err := p.Write([]T{*row}); err != nil {
				return err
			}
			if size += sizeOf(reflect.ValueOf(row).Elem()); size < rowGroupBytes {
				return nil
			}
			size = 0
			return p.Flush()
		}
		return p.Close
	}
	return nil
}

// sizeOf is about how many bytes a row has in memory.
func sizeOf(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Struct:
		for i := range v.NumField() {
			n += sizeOf(v.Field(i))
		}
		return n
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return v.Len() * int(v.Type().Elem().Size())
		}
		for i := range v.Len() {
			n += sizeOf(v.Index(i))
		}
		return n
	default:
		return int(v.Type().Size())
	}
}

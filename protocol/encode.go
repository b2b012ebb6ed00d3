package protocol

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// appendList appends a JSON array; a nil list is [].
func appendList[T any](dst []byte, list []T, appendJSON func(T, []byte) []byte) []byte {
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJSON(list[i], dst)
	}
	return append(dst, ']')
}

// appendObject appends a raw object; nil is {}.
func appendObject(v Raw, dst []byte) []byte {
	if len(v) == 0 {
		return append(dst, '{', '}')
	}
	return append(dst, v...)
}

// appendOptionalObject appends a member unless its object is empty, which is
// the default of every optional object.
func appendOptionalObject(dst []byte, key string, v Raw) []byte {
	if len(v) == 0 || string(v) == "{}" {
		return dst
	}
	dst = append(dst, key...)
	return append(dst, v...)
}

// appendOptionalString appends a member unless its text is empty.
func appendOptionalString(dst []byte, key, s string) []byte {
	if s == "" {
		return dst
	}
	dst = append(dst, key...)
	return appendString(dst, s)
}

func appendInt(dst []byte, key string, n int64) []byte {
	dst = append(dst, key...)
	return strconv.AppendInt(dst, n, 10)
}

func appendBool(dst []byte, key string, b bool) []byte {
	dst = append(dst, key...)
	return strconv.AppendBool(dst, b)
}

func appendFloat(dst []byte, key string, f float64) []byte {
	dst = append(dst, key...)
	return jsontext.AppendFloat(dst, f, 64)
}

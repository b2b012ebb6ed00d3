package protocol

import (
	"strings"

	"agentd/internal/base/clip"

	"github.com/go-json-experiment/json"
)

const maxDetail = 512 // bounds the detail of a foreign error body, in bytes

// DecodeErrorBody reads the body of an error: the problems of a 422,
// or a sentence. It is lenient, since proxies answer errors too.
func DecodeErrorBody(body []byte) (detail string, problems Problems) {
	var answer struct {
		Detail Raw `json:"detail"`
	}
	_ = json.Unmarshal(body, &answer) // else there is no detail
	if json.Unmarshal(answer.Detail, &problems) == nil && len(problems) > 0 {
		for _, p := range problems {
			for i, s := range p.Loc {
				if f, ok := s.(float64); ok {
					p.Loc[i] = int(f)
				}
			}
		}
		return "", problems
	}
	if detail, _ := Text(answer.Detail); detail != "" {
		return detail, nil
	}
	return clip.Text(strings.ToValidUTF8(strings.TrimSpace(string(body)), "\uFFFD"), maxDetail), nil
}

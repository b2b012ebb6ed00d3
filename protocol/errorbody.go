package protocol

import (
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clip"
)

const maxDetail = 512 // bytes of an error body of unknown shape that become the detail

// DecodeErrorBody returns the problems of the body of a 422, or the sentence of another error. Of a body in another
// shape, such as a proxy's, the beginning becomes the detail, except of HTML.
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
	text := strings.TrimSpace(string(body))
	if strings.HasPrefix(text, "<") {
		return "the answer is a page of HTML, of a proxy or another server", nil
	}
	return clip.Text(strings.ToValidUTF8(text, "\uFFFD"), maxDetail), nil
}

package protocol

import (
	"strings"

	"agentd/internal/clip"

	"github.com/go-json-experiment/json"
)

// maxDetail bounds the detail of a foreign error body, in bytes.
const maxDetail = 512

// DecodeErrorBody reads the body of an error: the problems of a 422,
// or a sentence. It is lenient, since proxies answer errors too.
func DecodeErrorBody(body []byte) (detail string, problems Problems) {
	var withProblems struct {
		Detail []struct {
			Type string `json:"type"`
			Loc  []any  `json:"loc"`
			Msg  string `json:"msg"`
		} `json:"detail"`
	}
	if json.Unmarshal(body, &withProblems) == nil && len(withProblems.Detail) > 0 {
		for _, p := range withProblems.Detail {
			for i, s := range p.Loc {
				if f, ok := s.(float64); ok {
					p.Loc[i] = int(f)
				}
			}
			problems = append(problems, Problem(p))
		}
		return "", problems
	}
	var withDetail struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &withDetail) == nil && withDetail.Detail != "" {
		return withDetail.Detail, nil
	}
	return clip.Text(strings.ToValidUTF8(strings.TrimSpace(string(body)), "\uFFFD"), maxDetail), nil
}

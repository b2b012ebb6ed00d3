package remote

import (
	"errors"
	"strings"
	"testing"

	"agentd/scheduler/generation"
)

// TestTextsOfAllTokensAreCompared: what no probe shows.
func TestTextsOfAllTokensAreCompared(t *testing.T) {
	exchanged := func(a, b int) func(map[int]string) {
		return func(m map[int]string) { m[a], m[b] = m[b], m[a] }
	}
	set := func(id int, text string) func(map[int]string) { return func(m map[int]string) { m[id] = text } }
	for name, tc := range map[string]struct {
		change func(map[int]string)
		tokens func(string) []int
		want   string
	}{
		"the same vocabulary":                       {func(map[int]string) {}, nil, ""},
		"two ids exchanged":                         {exchanged('Q', 'q'), func(text string) []int { return swapped(text, 'Q', 'q') }, `token 1 of "Q" is 113, and here 81`},
		"an added token that is another":            {set(257, "<other>"), nil, `token 1 of "<control>" is missing, and here 257`},
		"an added token less in the engine":         {set(257, ""), nil, `token 1 of "<control>" is missing, and here 257`},
		"an id that the engine refuses":             {set(257, "-"), nil, `token 1 of "<control>" is missing, and here 257`},
		"an engine without texts of special tokens": {func(m map[int]string) { m[256], m[257] = "", "" }, nil, ""},
		"an engine that refuses all":                {set(256, "-"), nil, ""},
		"a text that the engine cleans up":          {set('Q', ""), nil, ""},
		"parts of characters written in its way":    {set(0xc3, "\ufffd\ufffd\ufffd"), nil, ""},
	} {
		for _, api := range []string{APIVLLM, APILlamaServer, APISGLang} {
			t.Run(name+", "+api, func(t *testing.T) {
				f := newFake(t, api)
				f.texts = map[int]string{}
				for id := range (bytesModel{}).Size() {
					f.texts[id] = bytesModel{}.Detokenize([]generation.Token{generation.Token(id)})
				}
				tc.change(f.texts)
				f.tokens = tc.tokens
				if f.tokens != nil { // only of the exchanged letters, which probes do not have alone
					f.tokens = func(text string) []int {
						if len(text) > 1 {
							return swapped(text, 0, 0)
						}
						return tc.tokens(text)
					}
				}
				e, _ := opened(t, f)
				err := e.Start(t.Context())
				var mismatch *MismatchError
				if tc.want == "" && err != nil || tc.want != "" && (!errors.As(err, &mismatch) || !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			})
		}
	}
}

// swapped are the bytes of a text, two of them exchanged.
func swapped(text string, a, b byte) (ids []int) {
	for i := range len(text) {
		switch text[i] {
		case a:
			ids = append(ids, int(b))
		case b:
			ids = append(ids, int(a))
		default:
			ids = append(ids, int(text[i]))
		}
	}
	return ids
}

package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"agentd/internal/base/clip"
	"agentd/scheduler/generation"
)

// call is what one call asks for.
type call struct {
	*generation.Request
	grammar  string // of the engine that is asked
	model    string
	adapter  string          // its name; "": none
	lora     string          // the adapter that must have answered, here or as the engine's model; "": none
	loras    json.RawMessage // the choice of llama-server, nil: it has no adapters
	n        int             // completions of this call
	seed     uint32
	ends     []generation.Token // that end a completion
	stops    []string           // texts that do
	excluded []generation.Token
}

// answer is what one call returned.
type answer struct {
	served         string // the engine's name of the model
	model          string // that the answer names; "": none
	prompt, cached int    // tokens; cached is -1 where the engine does not report it
	choices        []choice
}

// choice is one completion as the engine returned it.
type choice struct {
	index   int
	ids     []generation.Token
	length  bool // ended by the limit of tokens
	refused string
	// logprobs of ids, if the call asked for scores; nil is not known.
	logprobs []*float32
}

// dialect is an API of engines.
type dialect interface {
	// path of the call below the engine's URL.
	path() string
	body(c *call) ([]byte, error)
	read(body []byte, n int) (answer, error)
}

// topP is 1 where nothing is cut off.
func (c *call) topP() float32 {
	if c.TopP > 0 && c.TopP < 1 {
		return c.TopP
	}
	return 1
}

// logprobs is the number of alternatives that a call for scores asks for, nil without scores.
func (c *call) logprobs(alternatives int) *int {
	if !c.Scores {
		return nil
	}
	return &alternatives
}

func dialectOf(id identity) dialect {
	switch id.api {
	case APISGLang:
		return sglang{id.seeded}
	case APILlamaServer:
		return llamaServer{}
	}
	return vllm{}
}

// bias excludes tokens in the form of OpenAI's API.
func bias(ids []generation.Token) map[string]float64 {
	if len(ids) == 0 {
		return nil
	}
	m := make(map[string]float64, len(ids))
	for _, id := range ids {
		m[fmt.Sprint(id)] = -100
	}
	return m
}

// emptyFirst is a rule whose first alternative is empty.
var emptyFirst = regexp.MustCompile(`(?m)^([\w-]+ ::= )\|`)

// ebnf writes an empty alternative as an empty text, since XGrammar, the matcher of vLLM and
// SGLang, does not take nothing for one. llama.cpp takes both.
func ebnf(grammar string) string { return emptyFirst.ReplaceAllString(grammar, `$1"" |`) }

// errorOf is the text of an error's body, for messages.
func errorOf(body []byte) string {
	var openAI struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	text := string(body)
	if json.Unmarshal(body, &openAI) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		switch {
		case json.Unmarshal(openAI.Error, &inner) == nil && inner.Message != "":
			text = inner.Message
		case openAI.Message != "":
			text = openAI.Message
		case len(openAI.Detail) > 0:
			text = string(openAI.Detail)
		case len(openAI.Error) > 0:
			text = string(openAI.Error)
		}
	}
	return cut(text)
}

// cut makes a text short, for messages.
func cut(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	return clip.Text(text, errorText)
}

// elements reads the completions of an answer, which is a list or a single one. It stops at more than n.
func elements[T any](text []byte, n int) (list []T, err error) {
	var whole json.RawMessage // is it JSON to its end?
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(whole))
	if whole[0] != '[' {
		var alone T
		err := d.Decode(&alone)
		return []T{alone}, err
	}
	_, err = d.Token()
	for err == nil && d.More() {
		if len(list) == n {
			return nil, fmt.Errorf("the answer has more than the %d completions that were asked for", n)
		}
		list = append(list, *new(T))
		err = d.Decode(&list[len(list)-1])
	}
	return list, err
}

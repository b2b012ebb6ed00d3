package remote

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"agentd/internal/base/clip"
	"agentd/scheduler/generation"
)

// call is one HTTP request for completions.
type call struct {
	*generation.Request
	grammar  string             // for the engine that is called
	model    string             // the engine's name of the model
	adapter  string             // name of the adapter; "" for none
	lora     string             // name that the answer must have: of the adapter, or of a model that is one; "" for any
	loras    json.RawMessage    // see loras; nil if the engine has no adapters
	n        int                // completions of this call
	seed     uint32             // of the first completion
	ends     []generation.Token // tokens that end a completion
	stops    []string           // texts that end a completion
	excluded []generation.Token // tokens that are not sampled
}

// answer is the parsed answer to a call.
type answer struct {
	served         string // the engine's name of the model
	model          string // the model that the answer names; "" if it names none
	prompt, cached int    // tokens; cached is -1 if the engine does not report it
	choices        []choice
}

// choice is one completion of an answer.
type choice struct {
	index   int
	ids     []generation.Token
	length  bool   // ended by the limit of tokens
	refused string // the engine's error for this completion, "" for none
	// logprobs has the logprob of each of ids, if the call asked for scores; an element is nil if not known.
	logprobs []*float32
}

// dialect writes the requests of an API of engines, and reads the answers.
type dialect interface {
	// path returns the path of the call, relative to the engine's URL.
	path() string
	body(c *call) ([]byte, error)
	read(body []byte, n int) (answer, error)
}

// topP returns TopP, and 1 if it is off.
func (c *call) topP() float32 {
	if c.TopP > 0 && c.TopP < 1 {
		return c.TopP
	}
	return 1
}

// logprobs returns alternatives, the number of alternatives to each token, if the call asks for scores, else nil.
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

// bias returns a logit_bias of OpenAI's API that excludes tokens.
func bias(ids []generation.Token) map[string]float64 {
	m := make(map[string]float64, len(ids))
	for _, id := range ids {
		m[fmt.Sprint(id)] = -100
	}
	return m
}

// emptyFirst matches a rule whose first alternative is empty.
var emptyFirst = regexp.MustCompile(`(?m)^([\w-]+ ::= )\|`)

// ebnf replaces empty alternatives by "", since XGrammar, the grammar library of vLLM and SGLang, does not
// accept them. llama.cpp accepts both.
func ebnf(grammar string) string { return emptyFirst.ReplaceAllString(grammar, `$1"" |`) }

// errorOf returns the message in the body of an error.
func errorOf(body []byte) string {
	return cut(cmp.Or(said(body, "error", "message", "detail"), string(body)))
}

// said returns the first text of an object's members, or the first message of an object in them; "" without one.
func said(body []byte, members ...string) (text string) {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(body, &all) // else there are none
	for _, name := range members {
		var inner struct {
			Message string `json:"message"`
		}
		if _ = json.Unmarshal(all[name], &text); text == "" && json.Unmarshal(all[name], &inner) == nil {
			text = inner.Message
		}
		if text != "" {
			break
		}
	}
	return text
}

// cut shortens a text to one line of errorText bytes, for messages.
func cut(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	return clip.Text(text, errorText)
}

// elements parses the completions of an answer, a JSON list or a single object. More than n are an error.
func elements[T any](text []byte, n int) (list []T, err error) {
	var whole json.RawMessage // is it JSON to its end?
	if len(text) == 0 || string(text) == "null" {
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

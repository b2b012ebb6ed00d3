package openai

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/scheduler/generation"
)

func TestPromptsAreScored(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"echo without an answer": {
			`{"prompt": "abc", "echo": true, "max_tokens": 0, "logprobs": 1}`,
			`{"index":0,"text":"abc","finish_reason":"length","logprobs":{"tokens":["a","b","c"],"token_logprobs":[null,-1.098,-2.099],` +
				`"text_offset":[0,1,2],"top_logprobs":[null,{"b":-1.098,"z":-0.5},{"c":-2.099,"z":-0.5}]}}`,
		},
		"echo with an answer": {
			`{"prompt": "ab", "echo": true, "logprobs": 0}`,
			`{"index":0,"text":"abok","finish_reason":"stop","logprobs":{"tokens":["a","b","o","k","<end>"],"token_logprobs":[null,-1.098,0,-1,-2],` +
				`"text_offset":[0,1,2,3,4],"top_logprobs":[null,{"b":-1.098},{"o":0},{"k":-1},{"<end>":-2}]}}`,
		},
		"echo of token ids without logprobs": {
			`{"prompt": [[97, 98, 99]], "echo": true, "max_tokens": 0}`, `{"index":0,"text":"abc","finish_reason":"length","logprobs":null}`,
		},
		"echo with an answer without logprobs": {
			`{"prompt": "abc", "echo": true}`, `{"index":0,"text":"abcok","finish_reason":"stop","logprobs":null}`,
		},
		"prompt_logprobs": {
			`{"prompt": "ab", "prompt_logprobs": 1, "max_tokens": 0}`,
			`{"index":0,"text":"","finish_reason":"length","logprobs":null,"prompt_logprobs":[null,{"122":{"logprob":-0.5,"rank":1,"decoded_token":"z"},` +
				`"98":{"logprob":-1.098,"rank":2,"decoded_token":"b"}}]}`,
		},
		"only the chosen tokens": {
			`{"prompt": "ab", "prompt_logprobs": 0, "max_tokens": 0}`,
			`"prompt_logprobs":[null,{"98":{"logprob":-1.098,"rank":2,"decoded_token":"b"}}]}`,
		},
		"from a token on": {
			`{"prompt": "abcd", "prompt_logprobs": 0, "max_tokens": 0, "prompt_logprob_start": 2}`,
			`"prompt_logprobs":[null,null,null,{"100":{"logprob":-3.1,"rank":2,"decoded_token":"d"}}]}`,
		},
		"echo from a token on": {
			`{"prompt": "abcd", "echo": true, "logprobs": 0, "max_tokens": 0, "prompt_logprob_start": 2}`, `"token_logprobs":[null,null,null,-3.1]`,
		},
		"fewer alternatives than asked for": {
			`{"prompt": "ab", "echo": true, "prompt_logprobs": 2, "logprobs": 2, "max_tokens": 0}`,
			`"top_logprobs":[null,{"b":-1.098,"z":-0.5}]},"prompt_logprobs":[null,{"122":{"logprob":-0.5,"rank":1,"decoded_token":"z"},"98":{"logprob":-1.098,"rank":2,"decoded_token":"b"}}]`,
		},
		"as ids": {
			`{"prompt": "ab", "logprobs": 0, "return_tokens_as_token_ids": true, "return_token_ids": true}`,
			`"logprobs":{"tokens":["token_id:111","token_id:107","token_id:256"],"token_logprobs":[0,-1,-2],"text_offset":[0,1,2],` +
				`"top_logprobs":[{"token_id:111":0},{"token_id:107":-1},{"token_id:256":-2}]},"token_ids":[111,107,256],"prompt_token_ids":[97,98]}`,
		},
		"from beyond the end": {
			`{"prompt": "abcd", "prompt_logprobs": 0, "max_tokens": 0, "prompt_logprob_start": 9}`, `"prompt_logprobs":[null,null,null,null]}`,
		},
	} {
		got, err := Complete(t.Context(), &scripted{text: "ok"}, "1", []byte(test.body), Stream{})
		if err != nil || !strings.Contains(string(got), test.want) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, test.want)
		}
	}
}

// Prompts of one call that begin alike are scored once where they do, and come in the order of the call.
func TestPromptsOfACallShareTheirScores(t *testing.T) {
	m := &scripted{text: "ok"}
	prompts := []string{"abcdx", "abcdyz", "b", "abcdx", "ab", "abcdx!"}
	list, err := json.Marshal(prompts)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Complete(t.Context(), m, "1", []byte(`{"prompt": `+string(list)+`, "echo": true, "logprobs": 0, "max_tokens": 1, "n": 2, "temperature": 1}`), Stream{})
	if err != nil {
		t.Fatal(err)
	}
	computed := ""
	for _, r := range m.requests {
		computed += fmt.Sprintf("%s from %d; ", m.Detokenize(r.Prompt), r.ScoreFrom)
	}
	if want := "ab from 1; abcdx from 2; abcdx from 4; abcdx! from 5; abcdyz from 4; b from 0; "; computed != want {
		t.Errorf("computed %s, want %s", computed, want)
	}
	var a answer[completionChoice]
	if err := json.Unmarshal(got, &a); err != nil || len(a.Choices) != 2*len(prompts) {
		t.Fatalf("%v: %s", err, got)
	}
	for i, c := range a.Choices {
		text := prompts[i/2]
		if c.Index != i || !strings.HasPrefix(c.Text, text) || len(c.Logprobs.Logprobs) != len(text)+3 {
			t.Errorf("choice %d: %+v", i, c)
			continue
		}
		for k := range text {
			want := float32(-k) - float32(text[k])/1000
			if p := c.Logprobs.Logprobs[k]; (p == nil) != (k == 0) || p != nil && *p != want {
				t.Errorf("choice %d, token %d: %v, want %g", i, k, p, want)
			}
		}
	}
}

func TestTooManyScoresAreRefused(t *testing.T) {
	list := strings.Repeat(`"`+strings.Repeat("a", 98)+`", `, 255) + `"b"`
	long := &scripted{text: "ok"}
	if _, err := Complete(t.Context(), long, "1", []byte(`{"prompt": [`+list+`], "prompt_logprobs": 5}`), Stream{}); err != nil {
		t.Error(err)
	}
	c := &completion{model: long, completionRequest: completionRequest{PromptLogprobs: new(int)}}
	for range 200 {
		c.requests = append(c.requests, generation.Request{Prompt: make([]generation.Token, 6000), Params: generation.Params{ScoreFrom: 1}})
	}
	if err := c.share(); err == nil || !strings.Contains(err.Error(), "asks for 1199800 logprobs") {
		t.Error(err)
	}
}

// parts are the choices of a stream of completions.
func parts(t *testing.T, m Model, body string) (list []completionChoice, end string, err error) {
	t.Helper()
	_, err = Complete(t.Context(), m, "1", []byte(body), Stream{Send: func(event []byte) error {
		for text := range strings.SplitSeq(strings.TrimSpace(string(event)), "\n\n") {
			switch text = strings.TrimPrefix(text, "data: "); {
			case text == "", strings.HasPrefix(text, ":"):
			case strings.HasPrefix(text, "{"):
				var a answer[completionChoice]
				if err := json.Unmarshal([]byte(text), &a); err != nil || a.Object != "text_completion" {
					t.Errorf("%v: %s", err, text)
				}
				list = append(list, a.Choices...)
				if a.Usage != nil {
					end = fmt.Sprint(a.Usage.Total, " ")
				}
			default:
				end += text
			}
		}
		return nil
	}})
	return list, end, err
}

func TestStreamedPartsAreTheWholeCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const fields = `"prompt": ["p", "q"], "n": 2, "seed": 3, "return_token_ids": true, "logprobs": 0, "stop": ["!!"]`
		m := &scripted{text: "h\u00e9llo! you!!", pause: time.Second}
		whole, err := Complete(t.Context(), m, "1", []byte(`{`+fields+`}`), Stream{})
		if err != nil {
			t.Fatal(err)
		}
		var want answer[completionChoice]
		if err := json.Unmarshal(whole, &want); err != nil {
			t.Fatal(err)
		}
		list, end, err := parts(t, m, `{`+fields+`, "stream": true, "stream_options": {"include_usage": true}}`)
		if err != nil || end != fmt.Sprint(want.Usage.Total, " [DONE]") || len(list) < 20 {
			t.Fatalf("%d parts, the end is %q, %v", len(list), end, err)
		}
		for i, w := range want.Choices {
			got := completionChoice{Logprobs: &completionScores{}}
			for _, p := range list {
				if p.Index == i {
					got.Text += p.Text
					got.TokenIDs, got.PromptIDs = append(got.TokenIDs, p.TokenIDs...), append(got.PromptIDs, p.PromptIDs...)
					if p.Logprobs != nil {
						got.Logprobs.TextOffset = append(got.Logprobs.TextOffset, p.Logprobs.TextOffset...)
					}
					if got.FinishReason != nil {
						t.Errorf("choice %d goes on after its end", i)
					}
					got.FinishReason = p.FinishReason
				}
			}
			if got.Text != w.Text || !slices.Equal(got.TokenIDs, w.TokenIDs) || !slices.Equal(got.PromptIDs, w.PromptIDs) || !slices.Equal(got.Logprobs.TextOffset, w.Logprobs.TextOffset) || *got.FinishReason != *w.FinishReason {
				t.Errorf("choice %d: %+v, want %+v", i, got, w)
			}
		}
	})
}

// A stream that continues an answer has only what is new of it.
func TestContinuedStreamsHaveTheRest(t *testing.T) {
	for n := range len("h\u00e9llo!") {
		m := &scripted{text: "h\u00e9llo!"}
		ids, _ := m.Tokenize(m.text[:n], false)
		first := list(nil).certain(m.Detokenize(ids))
		body, err := json.Marshal(map[string]any{"prompt": "p", "continue": [][]generation.Token{ids}, "stream": true, "return_token_ids": true, "logprobs": 0})
		if err != nil {
			t.Fatal(err)
		}
		m.begun = n
		got, end, err := parts(t, m, string(body))
		text, tokens := first, slices.Clone(ids)
		for _, p := range got {
			text, tokens = text+p.Text, append(tokens, p.TokenIDs...)
		}
		all, _ := m.Tokenize(m.text, false)
		if err != nil || end != "[DONE]" || text != m.text || !slices.Equal(tokens, append(all, 256)) || got[0].Logprobs.TextOffset[0] != n {
			t.Errorf("after %d tokens: %q, %v, %v", n, text, tokens, err)
		}
		if r := m.requests[0].Resume; r == nil || !slices.Equal(r.Completions[0].Tokens, ids) {
			t.Errorf("resumed %+v", r)
		}
	}
}

func TestStreamsEndWithTheirError(t *testing.T) {
	for name, m := range map[string]*scripted{
		"refused":     {fails: generation.ErrGrammar},
		"interrupted": {text: "ok", broken: generation.ErrPaused},
	} {
		if _, end, err := parts(t, m, `{"prompt": "p", "stream": true}`); end != "" || !errors.Is(err, generation.ErrGrammar) && !errors.Is(err, generation.ErrPaused) {
			t.Errorf("%s: %q, %v", name, end, err)
		}
	}
	m := &scripted{fails: fmt.Errorf("%w: no", generation.ErrResume)}
	if _, err := Complete(t.Context(), m, "1", []byte(`{"prompt": "a", "continue": [[7]]}`), Stream{}); err == nil || !strings.HasPrefix(err.Error(), "continue: ") {
		t.Error(err)
	}
}

func TestMasksAreLists(t *testing.T) {
	m := &scripted{text: "o", masks: [][]generation.Token{{1, 111}, nil}}
	got, err := Complete(t.Context(), m, "1", []byte(`{"prompt": "p", "return_sampling_mask": true}`), Stream{})
	if err != nil || !strings.Contains(string(got), `"logprobs":null,"sampling_mask":[[1,111],null]`) {
		t.Errorf("%s, %v", got, err)
	}
	if r := m.requests[0]; !r.Masks || !r.Scores {
		t.Errorf("asked %+v", r)
	}
}

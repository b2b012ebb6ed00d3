package openai

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/agent/format"
	"agentd/scheduler/generation"
)

// wordy has a chat of 90 tokens.
type wordy struct{ *scripted }

func (m wordy) Chat(ctx context.Context, c *format.Chat) (*generation.Request, format.Reader, error) {
	r, reader, err := m.scripted.Chat(ctx, c)
	r.Prompt = slices.Repeat([]generation.Token{1}, 90)
	return r, reader, err
}

// TestRequestsAskTheEngineFor what their fields say, in a context of 100 tokens with answers of 20.
func TestRequestsAskTheEngineFor(t *testing.T) {
	complete := func(m *scripted, fields string) error {
		_, err := Complete(t.Context(), m, "1", []byte(`{`+fields+`}`), nowhere)
		return err
	}
	chat := func(m *scripted, fields string) error {
		_, err := Chat(t.Context(), m, "1", []byte(`{`+hello+fields+`}`), nowhere)
		return err
	}
	longChat := func(m *scripted, fields string) error {
		_, err := Chat(t.Context(), wordy{m}, "1", []byte(`{`+hello+fields+`}`), nowhere)
		return err
	}
	generate := func(m *scripted, fields string) error {
		_, err := Generate(t.Context(), m, "1", []byte(`{"token_ids": `+fields+`}}`), nowhere)
		return err
	}
	most := func(r *generation.Request) any { return r.MaxTokens }
	scored := func(r *generation.Request) any { return fmt.Sprint(r.Scores, r.Top, r.ScoreFrom) }
	for name, c := range map[string]struct {
		ask    func(*scripted, string) error
		fields string
		get    func(*generation.Request) any
		want   any
	}{
		"the longest answer":                    {complete, `"prompt": "a"`, most, 20},
		"a longer one that is asked for":        {complete, `"prompt": "a", "max_tokens": 50`, most, 50},
		"what a long prompt leaves":             {complete, `"prompt": ` + long(90), most, 10},
		"what echo leaves of max_tokens":        {complete, `"prompt": "ab", "echo": true, "max_tokens": 3`, most, 3},
		"nothing beside the scores":             {complete, `"prompt": "ab", "echo": true, "max_tokens": 0`, most, 0},
		"the longest answer of a chat":          {chat, ``, most, 20},
		"a longer one of a chat":                {chat, `, "max_tokens": 50`, most, 50},
		"what a long chat leaves":               {longChat, ``, most, 10},
		"all that is left, by generate":         {generate, `[1, 2], "sampling_params": {`, most, 98},
		"no scores":                             {complete, `"prompt": "abc"`, scored, "false 0 0"},
		"scores":                                {complete, `"prompt": "abc", "logprobs": 0`, scored, "true 0 0"},
		"scores for masks":                      {complete, `"prompt": "abc", "return_sampling_mask": true, "max_tokens": 0, "echo": true`, scored, "true 0 2"},
		"more alternatives of the answer":       {complete, `"prompt": "abc", "logprobs": 3, "prompt_logprobs": 1`, scored, "true 3 1"},
		"more alternatives of the prompt":       {complete, `"prompt": "abc", "logprobs": 1, "prompt_logprobs": 3`, scored, "true 3 1"},
		"scores of the prompt only":             {complete, `"prompt": "abc", "prompt_logprobs": 3`, scored, "false 3 1"},
		"scores of the prompt from a token on":  {complete, `"prompt": "abcd", "prompt_logprobs": 0, "prompt_logprob_start": 2`, scored, "false 0 3"},
		"scores after the prompt's last token":  {complete, `"prompt": "abcd", "prompt_logprobs": 0, "prompt_logprob_start": 3`, scored, "false 0 0"},
		"scores of echoed tokens":               {complete, `"prompt": "abc", "echo": true, "logprobs": 2`, scored, "true 2 1"},
		"generate without scores":               {generate, `[1, 2], "sampling_params": {`, scored, "false 0 0"},
		"generate with its tokens alone":        {generate, `[1, 2], "sampling_params": {"logprobs": 1`, scored, "true 0 0"},
		"generate with alternatives":            {generate, `[1, 2], "sampling_params": {"logprobs": 2`, scored, "true 2 0"},
		"generate with more of the prompt":      {generate, `[1, 2], "sampling_params": {"logprobs": 2, "prompt_logprobs": 5`, scored, "true 5 1"},
		"generate with more of the answer":      {generate, `[1, 2], "sampling_params": {"logprobs": 5, "prompt_logprobs": 2`, scored, "true 5 1"},
		"generate with one token in its prompt": {generate, `[1], "sampling_params": {"prompt_logprobs": 5`, scored, "false 0 0"},
		"a chat with alternatives":              {chat, `, "logprobs": true, "top_logprobs": 4`, scored, "true 4 0"},
		"a chat without scores":                 {chat, `, "top_logprobs": 0`, scored, "false 0 0"},
		"no stop":                               {complete, `"prompt": "a", "stop": []`, func(r *generation.Request) any { return r.Stop == nil }, true},
		"a seed that wraps around":              {complete, `"prompt": "a", "n": 2, "seed": 4294967295`, func(r *generation.Request) any { return fmt.Sprint(r.Seeds) }, "[4294967295 0]"},
		"tokens that end any answer":            {chat, `, "stop_token_ids": [256]`, func(r *generation.Request) any { return r.Stop == nil }, true},
		"tokens that end this answer":           {chat, `, "stop_token_ids": [256, 7]`, func(r *generation.Request) any { return fmt.Sprint(r.Stop.Tokens) }, "[7]"},
		"text and tokens that end it":           {chat, `, "stop": "x", "stop_token_ids": [7]`, func(r *generation.Request) any { return fmt.Sprint(r.Stop.Texts, r.Stop.Tokens) }, "[x] [7]"},
		"the end is ignored":                    {generate, `[1], "sampling_params": {"ignore_eos": true`, func(r *generation.Request) any { return r.IgnoreEnd }, true},
		"a chat whose end is ignored":           {chat, `, "ignore_eos": true`, func(r *generation.Request) any { return r.IgnoreEnd }, true},
		"an end after some tokens":              {chat, `, "min_tokens": 3`, func(r *generation.Request) any { return fmt.Sprint(r.Least, r.IgnoreEnd) }, "3 false"},
		"an end after all tokens":               {complete, `"prompt": "a", "min_tokens": 5, "max_tokens": 5`, func(r *generation.Request) any { return fmt.Sprint(r.Least, r.IgnoreEnd) }, "5 true"},
		"a grammar":                             {generate, `[1], "sampling_params": {"structured_outputs": {"grammar": "g"}`, func(r *generation.Request) any { return r.Grammar }, "g"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &scripted{text: "ok", masks: make([][]generation.Token, 3)}
			if err := c.ask(m, c.fields); err != nil {
				t.Fatal(err)
			}
			if got := c.get(m.request); got != c.want {
				t.Errorf("asked for %v, want %v", got, c.want)
			}
		})
	}
}

func TestChoicesContinueTheirOwnTokens(t *testing.T) {
	m := &scripted{text: "ok"}
	if _, err := Complete(t.Context(), m, "1", []byte(`{"prompt": ["a", "b"], "n": 2, "continue": [[1], [2], [], [4]]}`), nowhere); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range m.requests {
		for _, c := range r.Resume.Completions {
			got = append(got, fmt.Sprint(string(r.Prompt[0]), c.Tokens, c.Finish))
		}
	}
	if want := []string{"a[1]paused", "a[2]paused", "b[]paused", "b[4]paused"}; !slices.Equal(got, want) {
		t.Errorf("resumed %q, want %q", got, want)
	}
}

// aborting aborts what it generates.
type aborting struct {
	*scripted
	running *Running
}

func (m aborting) GenerateAll(ctx context.Context, list []generation.Request, admitted func()) ([]*generation.Result, error) {
	m.running.Abort(nil)
	return m.scripted.GenerateAll(ctx, list, admitted)
}

// TestAnswersOf chats and generate say how they ended.
func TestAnswersOf(t *testing.T) {
	paused := &scripted{text: "ok", finish: generation.FinishPaused}
	one, two := &scripted{text: "ok", top: []generation.Likely{{Token: 107, Logprob: -0.5}, {Token: 3, Logprob: -2}}}, &scripted{text: "ok"}
	for name, c := range map[string]struct {
		m     *scripted
		chat  string // fields, or
		raw   string // a body of generate, or of completions
		abort bool
		want  string // a part of the answer, or
		err   string
	}{
		"a chat that was aborted":                  {m: paused, chat: ``, abort: true, want: `"message":{"role":"assistant","content":"ok","refusal":null},"logprobs":null,"finish_reason":"abort"`},
		"a chat that was paused":                   {m: paused, chat: ``, err: generation.ErrPaused.Error()},
		"a chat that failed while it was aborted":  {m: &scripted{text: "ok", broken: generation.ErrGrammar}, chat: ``, abort: true, err: generation.ErrGrammar.Error()},
		"a text that was aborted":                  {m: paused, raw: `"prompt": "a"`, abort: true, want: `"text":"ok","finish_reason":"abort"`},
		"a stream that was aborted":                {m: paused, raw: `"prompt": "a", "stream": true`, abort: true, want: `"finish_reason":"abort"`},
		"a text that was paused":                   {m: paused, raw: `"prompt": "a"`, err: generation.ErrPaused.Error()},
		"an empty answer":                          {m: &scripted{}, chat: ``, want: `"content":""`},
		"nothing before the limit":                 {m: &scripted{finish: generation.FinishLength}, chat: ``, want: `"content":null,"refusal":null},"logprobs":null,"finish_reason":"length"`},
		"half a call before a token of the client": {m: &scripted{text: `{"name": "g"`, finish: generation.FinishStop}, chat: tooled + `, "stop_token_ids": [34]`, want: `"content":"","refusal":null}`},
		"half a call before another token":         {m: &scripted{text: `{"name": "g"`, finish: generation.FinishStop}, chat: tooled + `, "stop_token_ids": [35]`, err: "choices[0]: the answer is no call of f"},
		"half a call before the model's end":       {m: &scripted{text: `{"name": "g"`}, chat: tooled + `, "stop_token_ids": [34]`, err: "choices[0]: the answer is no call of f"},
		"nothing before a token of the client":     {m: &scripted{finish: generation.FinishStop}, chat: `, "stop_token_ids": [34]`, want: `"content":"","refusal":null}`},
		"a call in a format where none may be":     {m: &scripted{text: `{"a": 1}`}, chat: `, "response_format": {"type": "json_object"}`, want: `"content":"{\"a\": 1}"`},
		"generate that failed":                     {m: &scripted{text: "ok", broken: generation.ErrGrammar}, raw: `"sampling_params": {}`, err: generation.ErrGrammar.Error()},
		"a token of the model's end":               {m: two, raw: `"sampling_params": {"stop_token_ids": [107]}`, want: `"finish_reason":"stop","stop_reason":null`},
		"no token at all":                          {m: &scripted{finish: generation.FinishStop}, raw: `"sampling_params": {"stop_token_ids": [107]}`, want: `"token_ids":[],"logprobs":null,"finish_reason":"stop","stop_reason":null`},
		"texts, one alternative at least":          {m: one, raw: `"output_mode": "text", "sampling_params": {"logprobs": 0}`, want: `{"token":"o","logprob":0,"bytes":[111],"top_logprobs":[{"token":"k","logprob":-0.5,"bytes":[107]}]}`},
		"texts, all alternatives":                  {m: one, raw: `"output_mode": "text", "sampling_params": {"logprobs": 2}`, want: `"top_logprobs":[{"token":"k","logprob":-0.5,"bytes":[107]},{"token":"\u0003","logprob":-2,"bytes":[3]}]}`},
		"texts, fewer alternatives than asked for": {m: one, raw: `"output_mode": "text", "sampling_params": {"logprobs": 5}`, want: `"top_logprobs":[{"token":"k","logprob":-0.5,"bytes":[107]},{"token":"\u0003","logprob":-2,"bytes":[3]}]}`},
		"ids, the token alone":                     {m: one, raw: `"sampling_params": {"logprobs": 0}`, want: `"rank":null,"top_logprobs":[{"token_id":111,"token":"token_id:111","logprob":0,"rank":null}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			var running Running
			ctx, m := t.Context(), Model(c.m)
			if c.abort {
				ctx, m = running.With(ctx), aborting{c.m, &running}
			}
			ask, body := Chat, `{`+hello+c.chat+`}`
			if strings.HasPrefix(c.raw, `"prompt"`) {
				ask, body = Complete, `{`+c.raw+`}`
			} else if c.raw != "" {
				ask, body = Generate, `{"token_ids": [1, 2], `+c.raw+`}`
			}
			var sent []byte
			got, err := ask(ctx, m, "1", []byte(body), Stream{Send: func(p []byte) error { sent = append(sent, p...); return nil }})
			got = append(got, sent...)
			if c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) || c.err == "" && (err != nil || !strings.Contains(string(got), c.want)) {
				t.Errorf("%s, %v; want %s%s", got, err, c.want, c.err)
			}
		})
	}
}

const tooled = `, "tools": [{"type": "function", "function": {"name": "f"}}]`

func TestUsageIsOfAllPrompts(t *testing.T) {
	got, err := Complete(t.Context(), &scripted{text: "ok"}, "1", []byte(`{"prompt": ["a", "bc"]}`), Stream{})
	if err != nil || !strings.Contains(string(got), `"usage":{"prompt_tokens":3,"completion_tokens":6,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":2}}`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestUnknownLogprobsAreANumber(t *testing.T) {
	nan := promptScores(2, 2, nil)[0].Logprob
	scores := []generation.Score{{Logprob: nan}, {Logprob: -1e30}, {Logprob: -1}}
	var got []float32
	for i := range 4 {
		got = append(got, finite(scoreOf(scores, i).Logprob))
	}
	if want := []float32{unknown, unknown, -1, unknown}; !slices.Equal(got, want) || scoreOf(scores, 3).Top != nil {
		t.Errorf("%v, want %v", got, want)
	}
}

// special records whether texts of special tokens may become these.
type special struct {
	*scripted
	asked *[]bool
}

func (m special) Tokenize(text string, special bool) ([]generation.Token, error) {
	*m.asked = append(*m.asked, special)
	return m.scripted.Tokenize(text, special)
}

func TestSpecialTokensAreAddedUnlessTheRequestForbidsIt(t *testing.T) {
	for field, want := range map[string]bool{``: true, `, "add_special_tokens": true`: true, `, "add_special_tokens": false`: false} {
		var asked []bool
		m, body := special{&scripted{text: "ok"}, &asked}, []byte(`{"prompt": "a"`+field+`}`)
		_, err := Complete(t.Context(), m, "1", body, Stream{})
		_, more := Tokenize(t.Context(), m, body)
		if err = errors.Join(err, more); err != nil || !slices.Equal(asked, []bool{want, want}) {
			t.Errorf("%s: %v, %v", field, asked, err)
		}
	}
}

// stepping gives out tokens step by step, as an engine does. Each text is all of a completion so far; "restart" begins again.
type stepping struct {
	*scripted
	steps []string
	done  string // the completion
}

func (m stepping) GenerateAll(_ context.Context, list []generation.Request, admitted func()) ([]*generation.Result, error) {
	r := &list[0]
	if admitted != nil {
		admitted()
	}
	was := 0
	for _, text := range m.steps {
		if text == "restart" {
			r.Watch(generation.Event{Kind: generation.Restarted})
			was = 0
		} else {
			ids, _ := m.Tokenize(text, false)
			for i := range r.N {
				r.Watch(generation.Event{Kind: generation.Chosen, Completion: i, Tokens: ids[was:], Scores: make([]generation.Score, len(ids)-was)})
			}
			was = len(ids)
		}
		time.Sleep(time.Second)
	}
	ids, _ := m.Tokenize(m.done, false)
	done := generation.Completion{Tokens: ids, StopToken: -1, Text: m.done, Finish: generation.FinishLength, Scores: make([]generation.Score, len(ids))}
	return []*generation.Result{{Completions: slices.Repeat([]generation.Completion{done}, r.N)}}, nil
}

// TestStreamsOf each way give out each token once, whatever the engine does.
func TestStreamsOf(t *testing.T) {
	again := "stream: the generation started again on another device"
	for name, c := range map[string]struct {
		steps []string
		done  string
		text  []string // of the events
		err   string
	}{
		"each step":                                {steps: []string{"a", "ab", "abc"}, done: "abc", text: []string{"a", "b", "c", ""}},
		"steps at once and the end":                {steps: []string{"ab"}, done: "abc", text: []string{"ab", "c"}},
		"forced tokens beyond the limit":           {steps: []string{"ab", "abcdefgh"}, done: "abcde", text: []string{"ab", "cde", ""}},
		"a device that goes on with the same":      {steps: []string{"ab", "restart", "a", "ab", "abcd"}, done: "abcd", text: []string{"ab", "cd", ""}},
		"a device that comes to another token":     {steps: []string{"ab", "restart", "a", "axc"}, done: "axc", text: []string{"ab"}, err: again},
		"a device that ends with other tokens":     {steps: []string{"ab", "restart"}, done: "axc", text: []string{"ab"}, err: again},
		"a device that ends sooner":                {steps: []string{"ab", "restart"}, done: "a", text: []string{"ab"}, err: again},
		"another device before the first token":    {steps: []string{"restart", "ab"}, done: "ab", text: []string{"ab", ""}},
		"a step without tokens":                    {steps: []string{"ab", "ab"}, done: "ab", text: []string{"ab", ""}},
		"a part of a character and then all of it": {steps: []string{"\xc3", "\xc3\xa9"}, done: "\u00e9", text: []string{"", "\u00e9", ""}},
	} {
		for way, ask := range map[string]func(t *testing.T, m Model, to Stream) ([]byte, error){
			"completion": func(t *testing.T, m Model, to Stream) ([]byte, error) {
				return Complete(t.Context(), m, "1", []byte(`{"prompt": "p", "n": 2, "max_tokens": 5, "stream": true, "return_token_ids": true, "logprobs": 0}`), to)
			},
			"chat": func(t *testing.T, m Model, to Stream) ([]byte, error) {
				return Chat(t.Context(), m, "1", []byte(`{`+hello+`, "n": 2, "max_tokens": 5, "stream": true, "return_token_ids": true}`), to)
			},
			"chat with logprobs": func(t *testing.T, m Model, to Stream) ([]byte, error) {
				return Chat(t.Context(), m, "1", []byte(`{`+hello+`, "n": 2, "max_tokens": 5, "stream": true, "logprobs": true}`), to)
			},
			"generate": func(t *testing.T, m Model, to Stream) ([]byte, error) {
				return Generate(t.Context(), m, "1", []byte(`{"token_ids": [1], "output_mode": "text", "stream": true, "sampling_params": {"n": 2, "max_tokens": 5, "logprobs": 0}}`), to)
			},
			"generate ids": func(t *testing.T, m Model, to Stream) ([]byte, error) {
				return Generate(t.Context(), m, "1", []byte(`{"token_ids": [1], "stream": true, "sampling_params": {"n": 2, "max_tokens": 5, "logprobs": 0}}`), to)
			},
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var events [2][]event
					m := stepping{&scripted{}, c.steps, c.done}
					_, err := ask(t, m, Stream{Send: func(part []byte) error {
						if len(part) > 0 && !strings.Contains(string(part), "[DONE]") {
							e := eventOf(t, part)
							events[e.index] = append(events[e.index], e)
						}
						return nil
					}})
					if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) {
						t.Errorf("got %v, want %q", err, c.err)
					}
					for i := range events {
						var texts []string
						tokens, whole := 0, ""
						for _, e := range events[i] {
							texts, tokens, whole = append(texts, e.text), tokens+e.tokens, whole+e.text
							if e.tokens == 0 && e.reason == "" || e.scored && e.tokens == 0 && way == "completion" {
								t.Errorf("an event has nothing: %+v", e)
							}
						}
						want := strings.Join(c.text, "")
						if c.err == "" && (tokens != len(c.done) || events[i][len(events[i])-1].reason != "length") {
							t.Errorf("choice %d has %d tokens: %+v", i, tokens, events[i])
						}
						switch diff := cmp.Diff(c.text, texts); {
						case c.err != "" && len(texts) > 1, c.err == "" && len(texts) < len(c.text), way == "completion" && diff != "", way != "generate ids" && whole != want:
							t.Errorf("choice %d has the texts %q, want %q", i, texts, c.text)
						}
					}
				})
			})
		}
	}
}

func TestStreamsCountTheirTokensInEachEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const options = `, "stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true}}`
		for body, ask := range map[string]func(context.Context, Model, string, []byte, Stream) ([]byte, error){
			`"prompt": "pqr"`: Complete, hello: Chat, `"token_ids": [1, 2, 3], "sampling_params": {}`: Generate,
		} {
			var all strings.Builder
			_, err := ask(t.Context(), stepping{&scripted{}, []string{"a", "abc"}, "abcd"}, "1", []byte(`{`+body+options), Stream{Send: func(part []byte) error {
				all.Write(part)
				return nil
			}})
			counts := slices.Compact(regexp.MustCompile(`"usage":{[^{}]*}|"usage":null`).FindAllString(all.String(), -1))
			want := `"usage":{"prompt_tokens":3,"completion_tokens":%d,"total_tokens":%d}`
			if w := []string{fmt.Sprintf(want, 1, 4), fmt.Sprintf(want, 3, 6), fmt.Sprintf(want, 4, 7)}; err != nil || !slices.Equal(counts, w) {
				t.Errorf("%s: %v, counts %s in %s", body, err, counts, all.String())
			}
		}
	})
}

// event is what an event of any stream has of one choice.
type event struct {
	index, tokens int
	text, reason  string
	scored        bool
}

func eventOf(t *testing.T, part []byte) (e event) {
	t.Helper()
	var a struct {
		Choices []struct {
			Index int    `json:"index"`
			Text  string `json:"text"`
			Delta struct {
				Content string `json:"content"`
			} `json:"delta"`
			IDs   []generation.Token `json:"token_ids"`
			Score *struct {
				Tokens  []string `json:"tokens"`
				Content []any    `json:"content"`
			} `json:"logprobs"`
			Reason string `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(part[len("data: "):], &a); err != nil || len(a.Choices) != 1 {
		t.Fatalf("%v: %s", err, part)
	}
	c := a.Choices[0]
	e = event{index: c.Index, tokens: len(c.IDs), text: c.Text + c.Delta.Content, reason: c.Reason, scored: c.Score != nil}
	if e.scored {
		e.tokens = max(len(c.IDs), len(c.Score.Tokens), len(c.Score.Content))
	}
	return e
}

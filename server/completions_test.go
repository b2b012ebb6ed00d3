package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/scheduler/generation"
	"agentd/server/openai"
)

// fakeChat is an Inference with OpenAI's API, whose answers wait for may.
type fakeChat struct {
	inferenceFunc
	openai.Model
	may    chan struct{}
	busy   error // instead of an admission
	result generation.Completion
	answer error // what is wrong with it
}

func (f *fakeChat) OpenAI() (openai.Model, func()) { return f, func() {} }
func (f *fakeChat) Served() generation.Served {
	return generation.Served{Name: "m", Window: 100, Size: 1, Longest: 10, Places: 9, Sampling: generation.Sampling{TopP: 1}}
}
func (f *fakeChat) Adapter(string) (generation.AdapterID, bool) {
	return 0, false
}
func (f *fakeChat) Adapters() []string { return nil }

func (f *fakeChat) Chat(context.Context, *format.Chat) (*generation.Request, format.Reader, error) {
	return &generation.Request{Prompt: []generation.Token{1}}, f, nil
}

func (f *fakeChat) GenerateAll(_ context.Context, _ []generation.Request, admitted func()) ([]*generation.Result, error) {
	if f.busy != nil {
		return nil, f.busy
	}
	if admitted != nil {
		admitted()
	}
	<-f.may
	return []*generation.Result{{Completions: []generation.Completion{f.result}}}, nil
}

func (f *fakeChat) Read(text string) (string, []tools.Call, error) { return text, nil, f.answer }
func (f *fakeChat) SoFar(string) string                            { return "" }
func (f *fakeChat) Cut(string) (string, []tools.Call)              { return "", nil }

func TestStreamsSendTheirHeadersBeforeTheAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		chat *fakeChat
		want string // the last event before [DONE]
	}{
		"an answer":                {&fakeChat{result: generation.Completion{Text: "Hi"}}, `"finish_reason":"stop"`},
		"an answer that is wrong":  {&fakeChat{answer: errors.New("it is no call")}, `"code":"422","message":"choices[0]: it is no call; `},
		"a grammar without tokens": {&fakeChat{result: generation.Completion{Err: generation.ErrGrammar}}, `"code":"400","message":"the output grammar can't be used"`},
		"a device that failed":     {&fakeChat{result: generation.Completion{Err: errors.New("secret")}}, `"code":"500","message":"internal error; `},
	} {
		t.Run(name, func(t *testing.T) {
			test.chat.may = make(chan struct{})
			s := newTest(t, Loading, nil, func(o *Options) { o.Completions = true })
			s.Ready(test.chat)
			site := httptest.NewServer(s.Handler())
			defer site.Close()
			answer, err := http.Post(site.URL+pathChat, "application/json", strings.NewReader(`{"messages": [{"role": "user", "content": "a"}], "stream": true}`))
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%d, %v", answer.StatusCode, answer.Header)
			}
			close(test.chat.may)
			text, err := io.ReadAll(answer.Body)
			events := strings.Split(strings.TrimSpace(string(text)), "\n\n")
			if n := len(events); err != nil || n < 2 || events[n-1] != "data: [DONE]" || !strings.Contains(events[n-2], test.want) {
				t.Errorf("%s, %v", text, err)
			}
		})
	}
}

func TestStreamsThatAreNotAdmittedHaveAStatus(t *testing.T) {
	s := newTest(t, Loading, nil, func(o *Options) { o.Completions = true })
	s.Ready(&fakeChat{busy: &generation.QueueFullError{Asked: 1}})
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, pathChat, strings.NewReader(`{"messages": [{"role": "user", "content": "a"}], "stream": true}`))
	s.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d, %v, %s", w.Code, w.Header(), w.Body)
	}
}

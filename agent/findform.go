package agent

import (
	"context"
	"errors"
	"sync"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Questions that a model with tool calls answers with a call, which shows the form of its calls.
var (
	formQuestions = []string{"What is the weather in Paris now?", "Set a timer for ten minutes.", "Play the song Yesterday."}
	formTools     = []protocol.Raw{
		protocol.Raw(`{"name":"get_weather","description":"Get the current weather of a city.","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}`),
		protocol.Raw(`{"name":"set_timer","description":"Start a timer.","parameters":{"type":"object","properties":{"minutes":{"type":"integer"}},"required":["minutes"]}}`),
		protocol.Raw(`{"name":"play_song","description":"Play a song.","parameters":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}}`),
	}
)

// formTokens is how many tokens of an answer suffice to recognize the form.
const formTokens = 12

// FindForm finds the form in which the model writes calls, such as [format.FormFenced]. It decodes the answers to a few
// questions greedily and without a grammar, and takes the form with which most begin. It is [format.FormNative] if none
// begins with one, as of models that think aloud or can't call tools. admit admits n completions to the engine.
func (a *Agent) FindForm(ctx context.Context, admit func(n int) (Generator, error)) (string, error) {
	requests := make([]generation.Request, len(formQuestions))
	var catalog *format.Catalog
	for i, question := range formQuestions {
		request, reader, err := a.Chat(ctx, &format.Chat{
			Messages:  []format.ChatMessage{{Text: question}},
			Functions: tools.Functions{Raw: formTools},
		})
		if err != nil {
			return format.FormNative, err
		}
		request.Grammar, request.MaxTokens, request.Sampling, request.Seeds = "", formTokens, a.sampling(true), []uint32{0}
		requests[i], catalog = *request, reader.chat.Catalog
	}
	g, err := admit(len(requests))
	if err != nil {
		return format.FormNative, err
	}
	counts, errs := map[string]int{}, make([]error, len(requests))
	var mu sync.Mutex
	g.GenerateAll(ctx, requests, func(i int, r *generation.Result, err error) {
		if errs[i] = err; err == nil {
			mu.Lock()
			defer mu.Unlock()
			counts[catalog.FormOf(r.Completions[0].Text)]++
		}
	})
	for form, n := range counts {
		if n > len(requests)/2 && form != "" {
			return form, nil
		}
	}
	return format.FormNative, errors.Join(errs...)
}

// CallForm returns the form in which the model writes calls, such as [format.FormNative].
func (a *Agent) CallForm() string { return a.format.CallForm() }

// Effort returns how long the model reasons, as its format has it.
func (a *Agent) Effort() string { return a.format.Effort() }

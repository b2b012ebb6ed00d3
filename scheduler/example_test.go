package scheduler_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rs/zerolog"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler"
	"agentd/scheduler/generation"
)

// A model of random weights generates four candidates of one prompt. They share its prefill.
func Example() {
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		log.Fatal(err)
	}
	path, err := synth.Cached("", spec)
	if err != nil {
		log.Fatal(err)
	}
	model, err := llama.New(path)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Free()
	engine, err := scheduler.New(context.Background(), []scheduler.Context{{
		Model:   model,
		Options: []llama.ContextOption{llama.SetContext(1024), llama.SetMaxSequences(8), llama.SetMaxOutputs(4)},
	}}, scheduler.Config{}, zerolog.Nop())
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	prompt, err := model.Vocab().Tokenize("Turn on the light.", false, false)
	if err != nil {
		log.Fatal(err)
	}
	admission, err := engine.Admit(4, 0)
	if err != nil {
		log.Fatal(err) // a *generation.QueueFullError says when to retry
	}
	defer admission.Release()
	requests := []generation.Request{{
		Prompt: prompt,
		Params: generation.Params{
			N: 4, MaxTokens: 8, Seeds: []uint32{1, 2, 3, 4},
			Sampling: generation.Sampling{Temperature: 0.6, TopP: 0.95, TopK: 20},
			Grammar:  `root ::= "yes" | "no"`,
		},
	}}
	admission.GenerateAll(context.Background(), requests, func(_ int, result *generation.Result, err error) {
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range result.Completions {
			fmt.Println(c.Finish, c.Text == "yes" || c.Text == "no")
		}
	})
	// Output:
	// stop true
	// stop true
	// stop true
	// stop true
}

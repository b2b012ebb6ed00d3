package llama_test

import (
	"fmt"
	"log"

	"agentd/llama"
	"agentd/llama/synth"
)

// A generation: the prompt is decoded at once, then one sampled token after the other. The grammar decides what
// this model of random weights writes.
func Example() {
	path, err := synth.Tiny("", synth.Qwen3) // any GGUF file
	if err != nil {
		log.Fatal(err)
	}
	model, err := llama.New(path)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Free()
	ctx, err := model.NewContext(llama.SetContext(256), llama.SetThreads(1, 1))
	if err != nil {
		log.Fatal(err)
	}
	defer ctx.Close()
	sampler, err := model.NewSampler(llama.SamplerConfig{Grammar: `root ::= "turn left" | "turn right, please"`})
	if err != nil {
		log.Fatal(err)
	}
	defer sampler.Close()

	tokens, err := model.Vocab().Tokenize("Where does the robot go? It should turn", true, false)
	if err != nil {
		log.Fatal(err)
	}
	var batch []llama.Row
	pos := llama.Pos(0)
	var answer []llama.Token
	for {
		batch = batch[:0]
		for i, token := range tokens {
			batch = append(batch, llama.Row{Token: token, Pos: pos, Output: i == len(tokens)-1})
			pos++
		}
		if err := ctx.Decode(batch); err != nil {
			log.Fatal(err)
		}
		logits, err := ctx.Logits(len(batch) - 1)
		if err != nil {
			log.Fatal(err)
		}
		token, err := sampler.Sample(logits)
		if err != nil {
			log.Fatal(err)
		}
		if model.Vocab().IsEOG(token) {
			break
		}
		answer = append(answer, token)
		tokens = append(tokens[:0], token)
	}
	text := model.Vocab().Detokenize(answer, false)
	fmt.Println(text == "turn left" || text == "turn right, please")
	// Output: true
}

// A fork shares the cells of its parent: both sequences continue one prompt.
func ExampleMemory_Copy() {
	path, err := synth.Tiny("", synth.Qwen3)
	if err != nil {
		log.Fatal(err)
	}
	model, err := llama.New(path)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Free()
	ctx, err := model.NewContext(llama.SetContext(256), llama.SetMaxSequences(2), llama.SetThreads(1, 1))
	if err != nil {
		log.Fatal(err)
	}
	defer ctx.Close()
	batch := []llama.Row{{Token: 65, Pos: 0}, {Token: 65, Pos: 1}, {Token: 65, Pos: 2, Output: true}}
	if err := ctx.Decode(batch); err != nil {
		log.Fatal(err)
	}
	if err := ctx.Memory().Copy(0, 1, 0, -1); err != nil {
		log.Fatal(err)
	}
	_, last := ctx.Memory().Range(1)
	fmt.Println(last)
	// Output: 2
}

// Package workload makes the load that agentbench sends: a trace of turns, each one
// request for the candidates of one input. Every server gets the same trace.
package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/protocol"
)

// Trace is a workload: the first turn of all agents, then the second, and so on.
type Trace struct {
	// Model is the SHA-256 of the GGUF file that the prompts were rendered with; ""
	// before [Render].
	Model string
	Turns []Turn
}

// Turn is one request: all candidates of one input. The input's memory scripts what
// the agent did in earlier turns, so all servers see the same prompts.
type Turn struct {
	// Agent counts from 0. A closed loop sends an agent's turn after the answer to the
	// turn before.
	Agent int `json:"agent"`
	// Turn counts the agent's turns from 0.
	Turn int `json:"turn"`
	// Input lacks inference_mode.
	Input protocol.AgentInput `json:"input"`
	// Candidates equals the input's num_outputs.
	Candidates int `json:"candidates"`

	// Render fills in the rest: the prompt that agentd gives to the model, with special
	// tokens as text, its tokens, and the answer's grammar in llama.cpp's GBNF, "" without.
	Prompt  string  `json:"-"`
	Tokens  []int32 `json:"-"`
	Grammar string  `json:"-"`
}

// Rendered reports whether every turn has tokens.
func (t *Trace) Rendered() bool {
	return !slices.ContainsFunc(t.Turns, func(turn Turn) bool { return len(turn.Tokens) == 0 })
}

// Agents is the number of agents.
func (t *Trace) Agents() int {
	n := 0
	for i := range t.Turns {
		n = max(n, t.Turns[i].Agent+1)
	}
	return n
}

// Hash is the SHA-256 of the inputs in hex. It does not depend on the model.
func (t *Trace) Hash() (string, error) {
	sum := sha256.New()
	for i := range t.Turns {
		if err := json.MarshalWrite(sum, &t.Turns[i], jsontext.PreserveRawStrings(true)); err != nil {
			return "", fmt.Errorf("turn %d of agent %d: %w", t.Turns[i].Turn, t.Turns[i].Agent, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

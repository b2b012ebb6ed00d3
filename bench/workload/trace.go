// Package workload holds what agentbench asks a server: a trace of turns, each
// one request for the candidates of one input. A trace is generated (see
// [Generate]) or recorded, and every target gets the same one.
package workload

import "agentd/protocol"

// Version is of the trace format.
const Version = 1

// Kinds of traces.
const (
	Synthetic = "synthetic" // of random words, as long as one likes
	Household = "household" // conversations of the simulated household, see package household
	Recorded  = "recorded"  // what somebody asked a server, see [Recorder]
)

// Trace is a workload in the order of its first line to its last.
type Trace struct {
	Header Header
	Turns  []Turn
}

// Header is the first line of a trace file.
type Header struct {
	Version int    `json:"version"`
	Kind    string `json:"kind"` // Synthetic, Household or Recorded
	// Options that generated it; nil when recorded.
	Options *Options `json:"options,omitempty"`
	// Model is the SHA-256 of the model file with which the prompts were
	// rendered and tokenized; "" before that was done.
	Model string `json:"model,omitempty"`
}

// Turn is one request: N candidates of one input. What an agent did in its
// earlier turns is scripted in the input's memory, whatever the target answered,
// so that all targets see the same prompts.
type Turn struct {
	// Agent counts from 0. An agent's turns follow each other: in a closed loop
	// one is sent when the one before it was answered.
	Agent int `json:"agent"`
	// Turn counts the agent's turns from 0.
	Turn int `json:"turn"`
	// Think is the pause before the turn in a closed loop.
	Think Millis `json:"think_ms,omitzero"`
	// At is when a recorded turn was sent, from the first one of the recording.
	At Millis `json:"at_ms,omitzero"`
	// Input is the AgentInput. Generated ones leave inference_mode to who sends them.
	Input protocol.Raw `json:"input"`
	// Candidates is the input's num_outputs.
	Candidates int `json:"candidates"`

	// What follows is filled in by package render.

	// Prompt is what agentd gives to the model, with special tokens as text.
	Prompt string `json:"prompt,omitempty"`
	// Tokens of the prompt.
	Tokens []int32 `json:"tokens,omitempty"`
	// Grammar constrains the answer, in llama.cpp's GBNF; "" is no constraint.
	Grammar string `json:"grammar,omitempty"`
}

// Package workload makes the load that agentbench sends: a trace of turns, each one
// request for the candidates of one input. Every server gets the same trace.
package workload

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/protocol"
)

// Version is the version of the trace format.
const Version = 2

// Trace is a workload in the order of its lines.
type Trace struct {
	Header Header
	Turns  []Turn
}

// Header is the first line of a trace file.
type Header struct {
	Version int      `json:"version"`
	Options *Options `json:"options"`
	// Model is the SHA-256 of the GGUF file that the prompts were rendered with; ""
	// before [Render].
	Model string `json:"model,omitempty"`
}

// Turn is one request: all candidates of one input. The input's memory scripts what
// the agent did in earlier turns, so all servers see the same prompts.
type Turn struct {
	// Agent counts from 0. A closed loop sends an agent's turn after the answer to the
	// turn before.
	Agent int `json:"agent"`
	// Turn counts the agent's turns from 0.
	Turn int `json:"turn"`
	// Input is the protocol's AgentInput without inference_mode.
	Input protocol.Raw `json:"input"`
	// Candidates equals the input's num_outputs.
	Candidates int `json:"candidates"`

	// Render fills in the rest.

	// Prompt is the prompt that agentd gives to the model, with special tokens as text.
	Prompt string `json:"prompt,omitempty"`
	// Tokens of the prompt.
	Tokens []int32 `json:"tokens,omitempty"`
	// Grammar constrains the answer, in llama.cpp's GBNF; "": no constraint.
	Grammar string `json:"grammar,omitempty"`
}

// AgentInput decodes the input as a server does.
func (t *Turn) AgentInput() (protocol.AgentInput, error) {
	req, err := protocol.DecodeAgentRequest(slices.Concat([]byte(`{"request_id":"trace","inputs":[`), t.Input, []byte(`]}`)))
	if err != nil {
		return protocol.AgentInput{}, err
	}
	if len(req.Inputs) != 1 {
		return protocol.AgentInput{}, fmt.Errorf("there are %d inputs; a turn has one", len(req.Inputs))
	}
	return req.Inputs[0], nil
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

// preserve keeps the bytes of inputs.
var preserve = jsontext.PreserveRawStrings(true)

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v, preserve)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Write writes a trace as JSON lines: the header, then one turn a line.
func (t *Trace) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	err := writeLine(b, &t.Header)
	for i := range t.Turns {
		err = errors.Join(err, writeLine(b, &t.Turns[i]))
	}
	return errors.Join(err, b.Flush())
}

// Hash is the SHA-256 of the inputs in hex. It does not depend on the model.
func (t *Trace) Hash() (string, error) {
	sum := sha256.New()
	for i := range t.Turns {
		asked := Turn{Agent: t.Turns[i].Agent, Turn: t.Turns[i].Turn, Input: t.Turns[i].Input, Candidates: t.Turns[i].Candidates}
		if err := writeLine(sum, &asked); err != nil {
			return "", fmt.Errorf("line %d: %w", i+2, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Read reads a trace that Write wrote. Errors name the line.
func Read(r io.Reader) (*Trace, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	t := new(Trace)
	var last Turn
	n := 0
	for lines.Scan() {
		n++
		var err error
		if n == 1 {
			err = t.Header.read(lines.Bytes())
		} else {
			last, err = readTurn(lines.Bytes(), last)
			t.Turns = append(t.Turns, last)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if o := t.Header.Options; n == 0 || len(t.Turns) != o.Agents*o.Turns {
		return nil, errors.New("turns are missing; generate the trace again")
	}
	return t, nil
}

var strict = json.RejectUnknownMembers(true)

func (h *Header) read(line []byte) error {
	err := json.Unmarshal(line, h, strict)
	if err != nil || h.Version != Version || h.Options == nil {
		return fmt.Errorf("is not a header of a trace of version %d; generate the trace again", Version)
	}
	return h.Options.Validate()
}

// readTurn reads the turn after another one.
func readTurn(line []byte, last Turn) (t Turn, err error) {
	if err := json.Unmarshal(line, &t, strict); err != nil {
		return t, err
	}
	if t.Agent < 0 || t.Agent >= maxAgents || t.Turn < last.Turn || t.Candidates < 1 {
		return t, fmt.Errorf("turn %d of agent %d is out of order, or has no candidates", t.Turn, t.Agent)
	}
	return t, nil
}

package rows

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"io"

	"agentd/protocol"
)

// Outcomes that have a rank. Others are words for filters only.
const (
	Success = "success"
	Failure = "failure"
)

// Situation is one input with the candidates for it.
type Situation struct {
	Source     string // file and line, or a task of a console
	RunID      string // "" if unknown
	RequestID  string // "" if unknown
	Person     string // whose correction it is; "" but for a task of a console
	Input      *protocol.AgentInput
	Candidates []Candidate
	Replaced   []Candidate // what corrections among the candidates replaced, where the source says so

	task  bool   // of a console; a saved run may have the same correction
	scope string // the run within which situations may be equal
	at    ref    // where it can be read again
	back  uint64 // equals next of the candidate that led here
}

// Candidate is one candidate for an input.
type Candidate struct {
	Index   int
	Status  string // protocol's StatusCompleted or StatusError
	Output  *protocol.AgentDecision
	Steps   []protocol.Raw // internal steps
	Outcome string         // "" if unknown
	Reward  *float64       // nil if unknown

	corrects bool   // a correction, no answer of a model
	led      bool   // the run went on from here, or reached the end of a stage
	faulty   bool   // a diagnosis found it wrong, although the run may have gone on from here
	reached  *bool  // whether any decision from here on reached the end of the stage; nil if unknown
	next     uint64 // equals back of the situations that follow
	replaces uint64 // equals next of the candidate that was found faulty; 0 if unknown
}

// Corrects reports whether a candidate is a correction, no answer of a model.
func (c *Candidate) Corrects() bool { return c.corrects }

// rank orders candidates of one input. ok is false if nothing is known.
func (c *Candidate) rank() (rank float64, ok bool) {
	switch {
	case c.Reward != nil:
		return *c.Reward, true
	case c.Outcome == Success:
		return 1, true
	case c.Outcome == Failure:
		return 0, true
	}
	return 0, false
}

// Key is equal for situations in which the agent was asked the same.
func (s *Situation) Key() uint64 {
	in := s.Input
	parts := []string{s.scope, in.Instruction.Type, in.Instruction.Content, canonical(in.Attributes), canonical(in.Memory)}
	for _, tool := range in.Tools {
		parts = append(parts, canonical(tool))
	}
	return hash(parts...)
}

// memoryKey joins an answer's memory to the next input's.
func memoryKey(memory protocol.Raw) uint64 { return hash("memory", canonical(memory)) }

// canonical is equal for JSON texts that differ in white space, escapes and the order of members.
func canonical(raw protocol.Raw) string {
	text := raw.Clone()
	if text.Canonicalize() != nil {
		return string(raw) // the same bytes are still equal
	}
	return cmp.Or(string(text), "{}")
}

// hash is a part of a SHA-256. Among a billion situations two are equal by chance once in 40 times.
func hash(parts ...string) uint64 {
	h := sha256.New()
	var size [8]byte
	for _, part := range parts {
		binary.LittleEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		_, _ = io.WriteString(h, part) // a hash takes everything
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// step is what rows need of an internal step. Nothing else of it gets into a row.
type step struct {
	component, origin string
	elements          protocol.Raw // input_elements
	prompted, output  string       // full_prompt, output_raw
}

// steps reads the internal steps that agentd and MAGMA's agents write; other objects have no
// component.
func (c *Candidate) steps() (list []step) {
	for _, raw := range c.Steps {
		s := step{component: member(raw, "component"), origin: cmp.Or(member(raw, "origin"), protocol.OriginModel), prompted: member(raw, "full_prompt"), output: member(raw, "output_raw")}
		s.elements, _ = protocol.Get(raw, "input_elements")
		if s.component != "" {
			list = append(list, s)
		}
	}
	return list
}

// member is a text of an object, "" if it is not a text.
func member(raw protocol.Raw, name string) string {
	v, _ := protocol.Get(raw, name)
	text, _ := protocol.Text(v)
	return text
}

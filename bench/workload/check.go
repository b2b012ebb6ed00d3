package workload

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"agentd/protocol"
)

func (h *Header) validate() error {
	if h.Version != Version {
		return fmt.Errorf("version is %d; it must be %d", h.Version, Version)
	}
	if sum, err := hex.DecodeString(h.Model); err != nil || h.Model != "" && len(sum) != 32 {
		return fmt.Errorf("model is %.80q; it must be a SHA-256 in hex, or be left out where nothing was rendered", h.Model)
	}
	switch h.Kind {
	case Recorded:
		if h.Options != nil {
			return errors.New("options are for a trace that was generated, and this one was recorded; remove them")
		}
		return nil
	case Synthetic, Household:
	default:
		return fmt.Errorf("kind is %.80q; it must be %s, %s or %s", h.Kind, Synthetic, Household, Recorded)
	}
	switch {
	case h.Options == nil:
		return fmt.Errorf("options are missing, and a trace of the kind %s has some", h.Kind)
	case h.Options.Kind != h.Kind:
		return fmt.Errorf("options.kind is %.80q, and kind %q; they must be the same", h.Options.Kind, h.Kind)
	}
	if err := h.Options.Validate(); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	return nil
}

// checker holds one turn after the other against the header and the turns before.
type checker struct {
	header *Header
	turns  []int // of each agent so far
	count  int
	at     Millis // of the last turn
}

// turn checks the next one and removes the whitespace of its input.
func (c *checker) turn(t *Turn) error {
	switch {
	case c.count >= maxLines:
		return fmt.Errorf("there are more than %d turns", maxLines)
	case t.Agent < 0 || t.Agent > len(c.turns) || t.Agent >= maxLines:
		return fmt.Errorf("agent is %d, and %d agents came before; they are numbered from 0 in the order of their first turns", t.Agent, len(c.turns))
	case t.Agent == len(c.turns):
		c.turns = append(c.turns, 0)
	}
	switch want := c.turns[t.Agent]; {
	case t.Turn != want:
		return fmt.Errorf("turn is %d where that of agent %d is %d; an agent's turns follow each other from 0", t.Turn, t.Agent, want)
	case t.Think < 0:
		return errors.New("think_ms is below 0")
	case t.At < c.at:
		return errors.New("at_ms is before that of the line before; turns are in the order in which they were sent")
	}
	c.turns[t.Agent]++
	c.count++
	c.at = t.At
	if err := t.checkInput(); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	return t.checkRendered(c.header.Model != "")
}

// checkInput holds the input against the protocol, as a server does.
func (t *Turn) checkInput() error {
	if err := t.Input.Compact(); err != nil {
		return err
	}
	if len(t.Input) > protocol.MaxBodyBytes-inputSlack {
		return fmt.Errorf("it has %d bytes, more than a request may have", len(t.Input))
	}
	in, err := t.AgentInput()
	if err != nil {
		return err
	}
	if n := in.NumOutputs; n != t.Candidates {
		return fmt.Errorf("num_outputs is %d, and candidates %d; they must be the same", n, t.Candidates)
	}
	return nil
}

// AgentInput decodes the turn's input as a server does. The error names what is
// wrong, in a request that has it alone.
func (t *Turn) AgentInput() (protocol.AgentInput, error) {
	alone := slices.Concat([]byte(`{"request_id":"trace","inputs":[`), t.Input, []byte(`]}`))
	req, err := protocol.DecodeAgentRequest(alone)
	if err != nil {
		return protocol.AgentInput{}, err
	}
	if len(req.Inputs) != 1 { // "{...},{...}" is no value
		return protocol.AgentInput{}, fmt.Errorf("it holds %d inputs; a turn has one", len(req.Inputs))
	}
	return req.Inputs[0], nil
}

// checkRendered holds what rendering filled in against whether that was done.
func (t *Turn) checkRendered(rendered bool) error {
	switch {
	case !rendered && (t.Prompt != "" || len(t.Tokens) > 0 || t.Grammar != ""):
		return errors.New("prompt, tokens and grammar are there, but the header has no model that they are for; remove them, or render the trace again")
	case rendered && (t.Prompt == "" || len(t.Tokens) == 0):
		return errors.New("prompt and tokens are missing, but the header has a model that they are for; render the trace again")
	case slices.ContainsFunc(t.Tokens, func(id int32) bool { return id < 0 }):
		return errors.New("tokens has a number below 0; render the trace again")
	}
	return nil
}

// end checks that nothing is missing.
func (c *checker) end() error {
	if c.count == 0 {
		return errors.New("the trace has no turns")
	}
	if o := c.header.Options; o != nil && c.count != o.Agents*o.Turns {
		return fmt.Errorf("the trace has %d turns where its options make %d: it was cut or changed; generate it again", c.count, o.Agents*o.Turns)
	}
	return nil
}

// validate checks a whole trace.
func (t *Trace) validate() error {
	if err := t.Header.validate(); err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	c := checker{header: &t.Header}
	for i := range t.Turns {
		if err := c.turn(&t.Turns[i]); err != nil {
			return fmt.Errorf("line %d: %w", i+2, err)
		}
	}
	return c.end()
}

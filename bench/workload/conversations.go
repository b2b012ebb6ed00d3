package workload

import (
	"crypto/sha256"

	"agentd/agent/memory"
	"agentd/protocol"
)

// conversations tells apart the agents of requests that do not name them. What
// an agent is asked next begins with what it was asked before: the history, then the
// instruction, then a decision. An input whose history begins so, under the same
// rules, is the next turn of that agent; any other one is the first turn of a new
// agent. So a request that is sent again, and a history that was changed or cut,
// begin a new agent. Of agents that were asked the same, the one that waits longest
// goes on.
type conversations struct {
	turns []int               // of each agent
	open  map[beginning][]int // agents by what their next history begins with
}

// beginning is the hash of the rules and some entries of a history.
type beginning [sha256.Size]byte

// entry is the beginning with one more entry.
func (b beginning) entry(author memory.Author, content string) beginning {
	text := make([]byte, 0, len(b)+len(author)+1+len(content))
	text = append(append(append(text, b[:]...), author...), 0)
	return sha256.Sum256(append(text, content...))
}

// next is the agent of an input and the number of its turn.
func (c *conversations) next(m *memory.Memory, instruction protocol.AgentInstruction) (agent, turn int) {
	begins := make([]beginning, 1, len(m.History)+1)
	for _, rule := range m.Rules {
		begins[0] = begins[0].entry("", rule)
	}
	for i, e := range m.History {
		begins = append(begins, begins[i].entry(e.Author, e.Content))
	}
	agent = len(c.turns)
	for i := len(begins) - 1; i > 0; i-- {
		if waiting := c.open[begins[i]]; len(waiting) > 0 {
			agent = waiting[0]
			c.open[begins[i]] = waiting[1:]
			if len(waiting) == 1 {
				delete(c.open, begins[i])
			}
			break
		}
	}
	if agent == len(c.turns) {
		c.turns = append(c.turns, 0)
	}
	turn = c.turns[agent]
	c.turns[agent]++
	if c.open == nil {
		c.open = map[beginning][]int{}
	}
	asked := begins[len(begins)-1].entry(author(instruction.Type), instruction.Content)
	c.open[asked] = append(c.open[asked], agent)
	return agent, turn
}

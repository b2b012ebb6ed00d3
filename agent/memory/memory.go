// Package memory parses an input's memory and writes a candidate's. Unknown members keep their bytes and position.
package memory

import (
	"bytes"
	"fmt"
	"strings"

	"agentd/agent/internal/rawjson"
	"agentd/agent/tools"
	"agentd/protocol"
)

// Author is the author of a history entry.
type Author string

// The authors, in the spelling of the first implementation.
const (
	User   Author = "USER"   // a user instruction
	System Author = "SYSTEM" // the environment
	Model  Author = "MODEL"  // a decision of the agent
)

// AuthorOf returns the author of the history entry for an instruction of that type.
func AuthorOf(instruction string) Author {
	if instruction == protocol.InstructionEnv {
		return System
	}
	return User
}

// authors maps the upper-case names that are accepted.
var authors = map[string]Author{
	"": User, "USER": User,
	"SYSTEM": System, "STATUS": System,
	"MODEL": Model, "ASSISTANT": Model,
}

// TokensKey is the member of memory with the tokens of a conversation. Package agent reads and writes it.
const TokensKey = "_tokens"

// MaxEntries bounds history entries, and rules. An empty entry takes a hundred times the bytes of its JSON.
const MaxEntries = 1 << 17

// Entry is one turn of the history.
type Entry struct {
	Author  Author
	Content string // as written
	Say     string // with Calls, the decision of a MODEL entry
	Calls   []tools.Call
}

// Memory is the parsed memory of one input.
type Memory struct {
	History []Entry
	Rules   []string // memory_list: persistent rules
	Summary string
	State   State
	Tokens  protocol.Raw // the member TokensKey; nil when absent

	raw     protocol.Raw
	history protocol.Raw // nil when absent or null
}

// Parse parses a memory. stateKey is the member with the prompt format's reasoning, "" if the format
// has none. The locations of problems are relative to the memory.
func Parse(raw protocol.Raw, stateKey string) (*Memory, protocol.Problems) {
	m := &Memory{raw: raw, State: State{Key: stateKey}}
	var problems protocol.Problems
	var state protocol.Raw
	for name, v := range protocol.Members(raw) {
		if name == stateKey && stateKey != "" {
			state = v
			continue
		}
		if v.Kind() == 'n' {
			continue // counts as absent
		}
		switch name {
		case TokensKey:
			m.Tokens = v
		case "history":
			m.history = v
			problems.AddAll(readList(v, name, "a list of {author, content} objects", func(e protocol.Raw) protocol.Problems {
				entry, ps := readEntry(e)
				m.History = append(m.History, entry)
				return ps
			}))
		case "memory_list":
			problems.AddAll(readList(v, name, "a list of strings", func(e protocol.Raw) protocol.Problems {
				rule, err := rawjson.String(e)
				m.Rules = append(m.Rules, rule)
				return notText(err)
			}))
		case "summary":
			var err error
			m.Summary, err = rawjson.String(v)
			problems.AddAll(notText(err, name))
		}
	}
	if state != nil && len(problems) == 0 { // turns refer to the history, which must be valid
		problems.AddAll(m.State.read(state, m.History))
	}
	return m, problems
}

// readList calls read for each element of the list in member name. want describes the list in problems.
func readList(v protocol.Raw, name, want string, read func(protocol.Raw) protocol.Problems) (problems protocol.Problems) {
	if v.Kind() != '[' {
		return rawjson.Wrong(protocol.TypeList, want, v, name)
	}
	i := 0
	for e := range protocol.Elements(v) {
		if i == MaxEntries {
			problems.Add(protocol.NewProblem(protocol.TypeTooLong,
				fmt.Sprintf("has more than %d entries, of which no model could read so many; send the newest", MaxEntries), name))
			return problems
		}
		if ps := read(e); len(ps) > 0 && !problems.AddAll(ps.At(name, i)) {
			return problems
		}
		i++
	}
	return problems
}

func notText(err error, loc ...any) protocol.Problems {
	if err == nil {
		return nil
	}
	return protocol.Problems{protocol.NewProblem(protocol.TypeString, err.Error(), loc...)}
}

func readEntry(raw protocol.Raw) (e Entry, problems protocol.Problems) {
	if raw.Kind() != '{' {
		return e, rawjson.Wrong(protocol.TypeDict, "an object with author and content", raw)
	}
	e.Author = User
	hasContent := false
	for name, v := range protocol.Members(raw) {
		var err error
		switch {
		case name == "author" && v.Kind() != 'n':
			var problem string
			if e.Author, problem = readAuthor(v); problem != "" {
				problems = append(problems, protocol.NewProblem(protocol.TypeLiteral, problem, "author"))
			}
		case name == "content":
			hasContent = true
			e.Content, err = rawjson.String(v)
			problems = append(problems, notText(err, name)...)
		}
	}
	if !hasContent {
		problems = append(problems, protocol.NewProblem(protocol.TypeMissing, "the entry needs a content, a string", "content"))
	}
	if e.Author == Model && problems == nil {
		e.Say, e.Calls = ReadDecision(e.Content)
	}
	return e, problems
}

func readAuthor(v protocol.Raw) (author Author, problem string) {
	name, err := rawjson.String(v)
	if err != nil {
		return "", err.Error()
	}
	author, known := authors[strings.ToUpper(name)]
	if !known {
		return "", fmt.Sprintf("the author %.40q is unknown; use USER, SYSTEM or MODEL", name)
	}
	return author, ""
}

// Append makes memories with one more turn: the instruction and a candidate's decision.
type Append struct {
	head, tail []byte // the new memory before and after the decision's content
	memory     *Memory
}

// Prepare makes the parts of the new memory that all candidates of an input share.
func (m *Memory) Prepare(author Author, instruction string) *Append {
	history := m.history
	if history == nil {
		history = protocol.Raw("[]")
	}
	list := make([]byte, 0, len(history)+len(instruction)+len(instruction)/8+80)
	list = append(list, bytes.TrimRight(history[:len(history)-1], " \t\r\n")...)
	if len(m.History) > 0 {
		list = append(list, ',')
	}
	list = append(append(append(list, `{"author":"`...), author...), `","content":`...)
	list = rawjson.AppendString(list, instruction)
	list = append(list, `},{"author":"MODEL","content":`...)
	// A zero byte is the placeholder of the decision's content, since JSON can't contain one.
	list = append(list, "\x00}]"...)
	whole := protocol.SetMember(m.raw, "history", list)
	at := bytes.IndexByte(whole, 0)
	return &Append{head: whole[:at:at], tail: whole[at+1:], memory: m}
}

// Decision returns the memory after a decision. content is that of [WriteDecision].
func (a *Append) Decision(content []byte, change Change) protocol.Raw {
	out := make([]byte, 0, len(a.head)+len(a.tail)+len(content)+len(content)/8+16)
	out = append(out, a.head...)
	out = rawjson.AppendString(out, content)
	out = append(out, a.tail...)
	return a.memory.State.apply(out, len(a.memory.History)+1, change)
}

// Package format turns inputs into prompts in a model's native form, and answers into decisions. A grammar constrains
// the answer. Formats have no side effects; they use a loaded model through [ModelAPI] only.
package format

import (
	"errors"
	"strings"
	"sync"

	"agentd/agent/internal/gbnf"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Names of formats.
const (
	Qwen     = "qwen"
	GPTOSS   = "gpt-oss"
	Llama    = "llama" // 3.1 and later
	Template = "template"
)

// Names lists the formats.
var Names = []string{Qwen, GPTOSS, Llama, Template}

// Output styles of the template format.
const (
	StyleBlocks = "qwen_format" // think, say, <tool_call>{robot: {name, arguments}}</tool_call>
	StyleJSON   = "json"        // one {"say", "action"} object
)

// Handling of text beside tool calls.
const (
	MixedReject = "reject" // the output is invalid
	MixedTools  = "tools"  // the calls are made, the text is dropped
)

// Segment is a part of a prompt: exactly the text of one special token, or text without special tokens.
type Segment struct {
	Text    string
	Special bool
	// Tokens replace the tokenization of Text if not nil. It is a pointer so that segments can be compared.
	Tokens *[]generation.Token
}

// ModelAPI is the part of a loaded model that a format uses.
type ModelAPI interface {
	// SpecialTokens returns the texts of all special tokens, user-defined ones included.
	SpecialTokens() []string
	// RenderTemplate renders the chat template with vars, a JSON object of its variables.
	RenderTemplate(vars []byte) (string, error)
}

// Options of a format.
type Options struct {
	// Architecture is the model file's. ChatTemplate is the model file's or the user's.
	Architecture    string
	ChatTemplate    string
	EnableThinking  bool   // lets models with reasoning think before they decide
	ReasoningEffort string // of gpt-oss: low, medium or high
	OutputStyle     string // of the template format, StyleBlocks or StyleJSON; or a form of calls, such as FormFenced
	MixedOutput     string // MixedReject or MixedTools
	CallsPerRobot   string // CallsOne (also "") or CallsAny
	ModelAPI        ModelAPI
}

// Input is the content of a prompt.
type Input struct {
	Chat    *Chat                // replaces all fields below if not nil
	Request *protocol.AgentInput // its instruction, attributes and tools
	Memory  *memory.Memory       // the request's, or a copy with a summary
	First   int                  // index of the first history entry that is shown
	// Attributes has the attributes shown with earlier messages, by the index of their entry in the history.
	Attributes map[int]string
	Catalog    *Catalog // of the tools
	// Summarize asks for a summary of the history instead of the next step. The prompt
	// shares a long prefix with that of the next step, which helps the prefix cache.
	Summarize bool
	FindTurn  bool // asks for Prompt.LastTurn
}

// Prompt is a rendered input.
type Prompt struct {
	Text     string    // the segments, concatenated
	Segments []Segment // parts of Text; no two plain ones are adjacent
	Messages protocol.Raw
	Tools    protocol.Raw
	LastTurn int // offset in Text of the end of the model's last turn, before the token that closes it; 0: not known
}

// After returns a copy of the prompt in which text, whose tokens are given, replaces all up to the end of the
// model's last turn. With ended it also replaces the token that closes the turn.
func (p *Prompt) After(text string, tokens []generation.Token, ended bool) *Prompt {
	next := &Prompt{Messages: p.Messages, Tools: p.Tools, Segments: []Segment{{Text: text, Tokens: &tokens}}}
	from := p.LastTurn
	if ended {
		from = p.turnClosed()
	}
	at := 0
	for _, s := range p.Segments {
		begin := max(from-at, 0)
		at += len(s.Text)
		if begin < len(s.Text) {
			s.Text = s.Text[begin:]
			next.Segments = append(next.Segments, s)
		}
	}
	next.Text = text + p.Text[from:]
	return next
}

// turnClosed returns the offset after the special token that closes the model's last turn, LastTurn without one.
func (p *Prompt) turnClosed() int {
	at := 0
	for _, s := range p.Segments {
		begin := max(p.LastTurn-at, 0)
		at += len(s.Text)
		switch {
		case begin >= len(s.Text):
		case s.Special && begin == 0:
			return at
		case trimSpace(s.Text[begin:]) != "":
			return p.LastTurn
		}
	}
	return p.LastTurn
}

// Decision is a parsed answer of a model.
type Decision struct {
	protocol.AgentDecision
	Reasoning []string     // by paragraph
	Complete  []tools.Call // the complete calls of a truncated answer
	CallForm  string       // of the calls, such as FormNative; "" without calls
}

// Format renders prompts and parses answers for a family of models. It is safe for concurrent use.
type Format interface {
	Name() string
	CallForm() string // the form in which the model writes calls, such as FormNative
	Effort() string   // how long the model reasons: none, on, the effort of GPT-OSS, or "" if it can't
	// StateKey returns the member of memory that holds reasoning, "" without one.
	StateKey() string
	// SuppressControl reports whether answers contain no control tokens except the end token.
	SuppressControl() bool
	// ShowsResults reports whether a prompt shows the result of a call as such, and only together with the
	// call. Otherwise a result is a message of the environment, and a history must not begin with a decision.
	ShowsResults() bool
	// Catalog prepares a set of tools.
	Catalog(set *tools.Set) *Catalog
	Render(in *Input) (*Prompt, error)
	// Parse parses an answer without its end token. With an error, the decision has the reasoning only.
	Parse(text string, c *Catalog) (Decision, error)

	// write appends a decision in the format's own form, without the end token.
	write(b *builder, m *message, c *Catalog)
	// inForms returns the spellings of calls, that in CallForm first. Without calls or with FormNative it returns nil.
	inForms(m *message, c *Catalog) []string
	splitter() *splitter

	// before adds the rules of what precedes the answer in a chat, such as reasoning, and
	// returns an expression that refers to them.
	before(g *gbnf.Grammar) string
	// ParseChat parses an answer in a chat without its end token, and drops reasoning.
	ParseChat(text string) (string, error)
}

// Catalog is a set of tools prepared for a format: their text in the prompt and their grammar. Inputs share it.
type Catalog struct {
	Set       *tools.Set
	CallBegin string // the text with which a call in the format's own form begins
	Key       string // cache key: equal for equal tools and robots

	text     string       // in the prompt's system part
	json     protocol.Raw // for the internal step
	parallel string       // name of the function that stands for several calls

	spacing gbnf.Spacing
	starts  *gbnf.Starts                        // beginnings of calls in other forms, which replies must not have; nil for none
	plain   bool                                // the grammar has calls in the format's own form only
	build   func(*gbnf.Grammar, *Catalog) error // adds the rules of answers

	once       sync.Once
	grammar    string
	grammarErr error
}

// Grammar returns the grammar of answers in GBNF; the first call builds it. If it would be too large, it has calls in
// the format's own form only. If that is still too large, the arguments of the largest tools are widened until it fits.
func (c *Catalog) Grammar() (string, error) {
	c.once.Do(func() {
		c.grammarErr = errors.New("the grammar could not be made") // stays where build panics
		for share := gbnf.Limit; ; {
			g := gbnf.New(c.spacing)
			g.Share = share
			err := c.build(g, c)
			if err == nil {
				err = g.TooLarge()
			}
			switch {
			case errors.Is(err, gbnf.ErrTooLarge) && !c.plain:
				c.plain = true
			case errors.Is(err, gbnf.ErrTooLarge) && share.Rules > 0:
				share = share.Quarter()
			default:
				if c.grammarErr = err; err == nil {
					c.grammar = g.String()
				}
				return
			}
		}
	})
	return c.grammar, c.grammarErr
}

// trimSpace trims ASCII white space, as chat templates do.
func trimSpace(s string) string { return strings.Trim(s, " \t\n\r\v\f") }

// common implements the methods of Format that formats share.
type common struct {
	rules
	think, inThoughts             bool // answers begin with a <think> block; the prompt has its opening tag
	split                         *splitter
	name, stateKey, effort        string
	suppressControl, showsResults bool
}

func (c *common) Name() string          { return c.name }
func (c *common) splitter() *splitter   { return c.split }
func (c *common) CallForm() string      { return c.form }
func (c *common) StateKey() string      { return c.stateKey }
func (c *common) SuppressControl() bool { return c.suppressControl }
func (c *common) ShowsResults() bool    { return c.showsResults }
func (c *common) Effort() string        { return c.effort }

// ParseChat removes the reasoning.
func (c *common) ParseChat(text string) (string, error) {
	_, answer, err := splitThoughts(trimEnd(text), c.inThoughts, "{")
	return answer, err
}

// Package format turns inputs into prompts in a model's native form, and answers into decisions. A grammar constrains
// the answer. Formats are pure: what they need of a loaded model comes through [ModelAPI].
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

// Names are the formats that a user may name.
var Names = []string{Qwen, GPTOSS, Llama, Template}

// Output styles of the template format.
const (
	StyleBlocks = "qwen_format" // think, say, <tool_call>{robot: {name, arguments}}</tool_call>
	StyleJSON   = "json"        // one {"say", "action"} object
)

// What to do with text beside tool calls.
const (
	MixedReject = "reject" // an invalid output
	MixedTools  = "tools"  // the calls count, the text is dropped
)

// Segment is a part of a prompt: exactly the text of one special token, or text without special tokens.
type Segment struct {
	Text    string
	Special bool
	// Tokens replace the tokens of Text; nil: there are none. Segments are compared, slices can't be.
	Tokens *[]generation.Token
}

// ModelAPI is the part of a loaded model that a format uses.
type ModelAPI interface {
	// SpecialTokens are the texts of all special tokens, also user-defined ones.
	SpecialTokens() []string
	// RenderTemplate renders the chat template with a JSON object of variables.
	RenderTemplate(vars []byte) (string, error)
}

// Options of a format.
type Options struct {
	// Architecture and ChatTemplate are the model file's, or the user's own template.
	Architecture    string
	ChatTemplate    string
	EnableThinking  bool   // lets models that can do so think before they decide
	ReasoningEffort string // of gpt-oss: low, medium or high
	OutputStyle     string // of the template format, StyleBlocks or StyleJSON; or a form of calls, such as FormFenced
	MixedOutput     string // MixedReject or MixedTools
	CallsPerRobot   string // CallsOne (also "") or CallsAny
	ModelAPI        ModelAPI
}

// Input is what a prompt shows.
type Input struct {
	Chat    *Chat                // a conversation in place of the members below; nil: none
	Request *protocol.AgentInput // its instruction, attributes and tools
	Memory  *memory.Memory       // that of the request, or one with a summary
	First   int                  // index of the first entry of the history that is shown
	// Attributes are shown with earlier messages, by the index of their entry in the history.
	Attributes map[int]string
	Catalog    *Catalog // of the tools
	// Summarize asks for a summary of the history instead of the next step.
	// The prompt begins as that of the next step, which the prefix cache has.
	Summarize bool
	FindTurn  bool // asks for Prompt.LastTurn
}

// Prompt is a rendered input.
type Prompt struct {
	Text     string    // the segments, concatenated
	Segments []Segment // parts of Text; no two plain ones are adjacent
	Messages protocol.Raw
	Tools    protocol.Raw
	LastTurn int // the byte of Text where the model's last turn ends, before what closes it. 0: not known.
}

// After is a prompt whose text up to the end of the model's last turn is replaced: by text, which
// has these tokens. ended: they have the token that closes the turn, too.
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

// turnClosed is where the special token that closes the model's last turn ends, else LastTurn.
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
	Reasoning []string     // what the model thought aloud, by paragraph
	Complete  []tools.Call // before the answer was cut off
	CallForm  string       // of the calls, such as FormNative; "": there are none
}

// Format is the form of prompts and answers of a family of models. It is safe for concurrent use.
type Format interface {
	Name() string
	CallForm() string // in which the model writes calls, such as FormNative
	// StateKey is the member of memory that holds reasoning, or "".
	StateKey() string
	// SuppressControl reports whether an answer has no control tokens except the one that ends it.
	SuppressControl() bool
	// ShowsResults reports whether a tool's result answers its call, and is never shown without it. Else it
	// is a message of the environment, and what is shown must not begin with the model.
	ShowsResults() bool
	// Catalog prepares a set of tools.
	Catalog(set *tools.Set) *Catalog
	Render(in *Input) (*Prompt, error)
	// Parse reads an answer, without the token that ended it. A decision with an error has the reasoning.
	Parse(text string, c *Catalog) (Decision, error)

	// write appends a decision as the model writes it in the format's own form, without what ends it.
	write(b *builder, m *message, c *Catalog)
	// thinksFirst reports whether an answer begins with thoughts.
	thinksFirst() bool
	// requiredFirst reports whether the grammar has the required arguments of a call before the others.
	requiredFirst() bool
	// inForm appends calls in the model's own form, where that isn't the format's. It reports whether it did.
	inForm(b *builder, m *message, c *Catalog, indent string) bool
	splitter() *splitter

	// before adds the rules of what comes before the answer in a chat, such as
	// thoughts, and returns what refers to them.
	before(g *gbnf.Grammar) string
	// ParseChat reads an answer in a chat without the token that ended it, and drops thoughts.
	ParseChat(text string) (string, error)
}

// Catalog is a set of tools as a format shows it. All inputs with these tools share it.
type Catalog struct {
	Set       *tools.Set
	CallBegin string // the text with which calls begin in an answer
	Key       string // of the tools and robots that it was made of: equal for equal ones

	text     string       // in the prompt's system part
	json     protocol.Raw // for the internal step
	parallel string       // name of the function that stands for several calls

	spacing gbnf.Spacing
	starts  *gbnf.Starts                        // of calls in other forms; nil: no reply is excluded
	plain   bool                                // calls have the form of the format only
	build   func(*gbnf.Grammar, *Catalog) error // adds the rules of answers

	once       sync.Once
	grammar    string
	grammarErr error
}

// Grammar is the grammar of answers, built on the first call. Where all tools together are too large, calls have the
// format's own form only. Then the largest tools are widened until the rest fits, and the check of calls decides.
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

// trimSpace trims what chat templates trim: white space of ASCII.
func trimSpace(s string) string { return strings.Trim(s, " \t\n\r\v\f") }

// common is what the formats have in common; its methods are documented in Format.
type common struct {
	rules
	split                         *splitter
	name, stateKey                string
	suppressControl, showsResults bool
}

func (c *common) Name() string          { return c.name }
func (c *common) splitter() *splitter   { return c.split }
func (c *common) requiredFirst() bool   { return true }
func (c *common) CallForm() string      { return c.form }
func (c *common) StateKey() string      { return c.stateKey }
func (c *common) SuppressControl() bool { return c.suppressControl }
func (c *common) ShowsResults() bool    { return c.showsResults }

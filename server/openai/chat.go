package openai

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/scheduler/generation"
)

type chatRequest struct {
	common

	Messages            []Message     `json:"messages"`
	MaxCompletionTokens *int          `json:"max_completion_tokens"`
	Tools               []tool        `json:"tools"`
	ToolChoice          toolChoice    `json:"tool_choice"`
	Parallel            bool          `json:"parallel_tool_calls"`
	ResponseFormat      *responseForm `json:"response_format"`
	Structured          *structured   `json:"structured_outputs"`
	Modalities          []string      `json:"modalities"`
	Effort              string        `json:"reasoning_effort"`
	Template            struct {
		Strict
		Thinking *bool `json:"enable_thinking"`
	} `json:"chat_template_kwargs"`

	Logprobs    bool `json:"logprobs"`
	TopLogprobs *int `json:"top_logprobs"`
}

type tool struct {
	Strict
	Type     string `json:"type"`
	Function struct {
		Strict
		Name        string         `json:"name,omitzero"`
		Description string         `json:"description,omitzero"`
		Parameters  jsontext.Value `json:"parameters,omitzero"`
		Exact       *bool          `json:"strict,omitzero"` // ignored: calls always fit the schema
	} `json:"function"`
}

// ToolCall is a call of a function in a message.
type ToolCall struct {
	Strict
	Index    *int   `json:"index,omitzero"` // in streams
	ID       string `json:"id,omitzero"`
	Type     string `json:"type,omitzero"`
	Function Called `json:"function"`
}

// Called is the function of a ToolCall.
type Called struct {
	Strict
	Name      string `json:"name,omitzero"`
	Arguments string `json:"arguments"`
}

// newCalls returns the calls of an answer, with unique ids.
func newCalls(calls []tools.Call) (list []ToolCall) {
	for _, c := range calls {
		list = append(list, ToolCall{ID: "call_" + rand.Text(), Type: "function", Function: Called{Name: c.Name, Arguments: string(c.Arguments)}})
	}
	return list
}

// toolChoice is a mode, auto (or ""), none or required, and the names of the functions that it allows, none for all.
type toolChoice struct {
	mode  string
	names []string
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *toolChoice) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return read(d, &c.mode)
	}
	var object struct {
		tool
		Allowed struct {
			Strict
			Mode  string `json:"mode"`
			Tools []tool `json:"tools"`
		} `json:"allowed_tools"`
	}
	if err := read(d, &object); err != nil {
		return err
	}
	list := object.Allowed.Tools
	switch c.mode = object.Allowed.Mode; {
	case object.Type == "function":
		c.mode, list = "required", []tool{object.tool}
	case object.Type != "allowed_tools" || c.mode != "auto" && c.mode != "required":
		list = nil
	}
	for _, f := range list {
		c.names = append(c.names, f.Function.Name)
	}
	if len(list) == 0 || slices.Contains(c.names, "") {
		return errors.New(`must be auto, none, required, {"type": "function", "function": {"name": ...}} or ` +
			`{"type": "allowed_tools", "allowed_tools": {"mode": "auto" or "required", "tools": [{"type": "function", ...}, ...]}}`)
	}
	return nil
}

type responseForm struct {
	Strict
	Type   string `json:"type"`
	Schema *struct {
		Strict
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Schema      jsontext.Value `json:"schema"`
		Exact       *bool          `json:"strict"`
	} `json:"json_schema"`
}

// structured is vLLM's way to say what an answer must be.
type structured struct {
	Strict
	JSON    jsontext.Value `json:"json"` // a schema
	Object  bool           `json:"json_object"`
	Choice  []string       `json:"choice"`
	Grammar string         `json:"grammar"`
}

// several reports whether several members say what an answer must be.
func (s *structured) several() bool {
	given := []bool{Present(s.JSON), s.Object, len(s.Choice) > 0, s.Grammar != ""}
	first := slices.Index(given, true)
	return first >= 0 && slices.Contains(given[first+1:], true)
}

// grammar returns the grammar of an answer other than JSON.
func (s *structured) grammar() string {
	switch {
	case s == nil:
		return ""
	case len(s.Choice) == 0:
		return s.Grammar
	}
	literals := make([]string, len(s.Choice))
	for i, text := range s.Choice {
		quoted, _ := jsontext.AppendQuote(nil, text) // GBNF has JSON's escapes, but \b and \f
		literals[i] = string(quoted)
	}
	return "root ::= " + strings.Join(literals, " | ")
}

type chatAnswer = answer[chatChoice]

type chatChoice struct {
	Index        int                `json:"index"`
	Message      *said              `json:"message,omitzero"`
	Delta        *delta             `json:"delta,omitzero"`
	Logprobs     *chatScores        `json:"logprobs"`
	FinishReason *string            `json:"finish_reason"`
	IDs          []generation.Token `json:"token_ids,omitempty"` // with return_token_ids
}

// said is a message of the model, delta a part of one in a stream.
type said struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"` // null: a call, complete or truncated
	Refusal   *string    `json:"refusal"` // always null, here and in chatScores: OpenAI's schema requires it
	ToolCalls []ToolCall `json:"tool_calls,omitzero"`
}

type delta struct {
	Role      string     `json:"role,omitzero"`
	Content   *string    `json:"content,omitzero"`
	ToolCalls []ToolCall `json:"tool_calls,omitzero"`
}

type chat struct {
	chatRequest
	model   Model
	served  generation.Served
	request *generation.Request
	answers format.Reader
	id      string
	created int64 // Unix time, equal in all parts of a stream
	top     int   // alternatives of each token, with logprobs
}

func newChat(ctx context.Context, m Model, id string, body []byte) (*chat, error) {
	c := &chat{model: m, served: m.Served(), id: "chatcmpl-" + id, created: time.Now().Unix()}
	if err := Decode(body, &c.chatRequest); err != nil {
		return nil, err
	}
	field := "max_tokens"
	if n := c.MaxCompletionTokens; n != nil {
		if *n < 1 {
			return nil, Refuse("max_completion_tokens", "is %d, must be at least 1", *n)
		}
		field, c.MaxTokens = "max_completion_tokens", n
	}
	p, err := c.params(m, &c.served)
	switch {
	case err != nil:
		return nil, err
	case c.TopLogprobs != nil && *c.TopLogprobs != 0 && !c.Logprobs:
		return nil, Refuse("top_logprobs", "needs logprobs: true")
	case len(c.Modalities) > 0 && !slices.Equal(c.Modalities, []string{"text"}):
		return nil, Refuse("modalities", "is %q; only text is possible", c.Modalities)
	case c.Effort != "" && c.served.Effort != "" && c.Effort != c.served.Effort:
		return nil, Refuse("reasoning_effort", "is %q, and all requests have %q here; remove it, or change "+
			"reasoning_effort (of GPT-OSS) or enable_thinking of the server", c.Effort, c.served.Effort)
	case c.Template.Thinking != nil && c.served.Effort != "" && *c.Template.Thinking != (c.served.Effort != "none"):
		return nil, Refuse("chat_template_kwargs.enable_thinking", "is %t, and all requests have %t here; "+
			"remove it, or change enable_thinking of the server", *c.Template.Thinking, !*c.Template.Thinking)
	case c.Structured.grammar() != "" && !slices.Contains([]string{"", "none", "on"}, c.served.Effort):
		return nil, Refuse("structured_outputs", "has a choice or a grammar, which excludes the reasoning of this model; give json")
	}
	if err := c.prompt(ctx); err != nil {
		return nil, err
	}
	if n := len(c.request.Prompt); n >= c.served.Window {
		return nil, c.refused(&generation.OverflowError{Prompt: n})
	}
	p.Grammar, p.SuppressControl = cmp.Or(c.Structured.grammar(), c.request.Grammar), c.request.SuppressControl
	if p.Stop != nil {
		p.Stop.Visible = c.answers.SoFar
	}
	if err := c.stopAt(&p, &c.served); err != nil {
		return nil, err
	}
	if err := c.fits(&p, field, "the prompt", len(c.request.Prompt), &c.served); err != nil {
		return nil, err
	}
	if c.Logprobs {
		set(&c.top, c.TopLogprobs)
		if err := scored(&p, "top_logprobs", c.top); err != nil {
			return nil, err
		}
	}
	c.request.Params = p
	return c, nil
}

// prompt makes the request of the messages.
func (c *chat) prompt(ctx context.Context) error {
	talk, err := c.conversation(ctx)
	if err == nil {
		c.request, c.answers, err = c.model.Chat(ctx, talk)
	}
	if err == nil {
		c.request.Prompt, err = c.splice(c.request.Prompt, &c.served)
	}
	if err != nil {
		return c.refused(err)
	}
	return nil
}

// functions returns the tools in the prompt.
func (r *chatRequest) functions() (f tools.Functions, err error) {
	choice := r.ToolChoice
	f = tools.Functions{Only: choice.names, MustCall: choice.mode == "required", OneCall: !r.Parallel, NoCall: choice.mode == "none"}
	switch known := []string{"", "auto", "none", "required"}; {
	case !slices.Contains(known, choice.mode):
		return f, Refuse("tool_choice", "is %q; want auto, none, required or a function", choice.mode)
	case f.MustCall && len(r.Tools) == 0:
		return f, Refuse("tool_choice", "asks for a call, and there are no tools")
	}
	for _, name := range f.Only {
		if !slices.ContainsFunc(r.Tools, func(t tool) bool { return t.Function.Name == name }) {
			return f, Refuse("tool_choice", "names %q, which is not a tool", name)
		}
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		if t.Type != "function" {
			return f, Refuse(path("tools", i)+".type", "is %q; only function is supported", t.Type)
		}
		raw, err := Marshal(&t.Function)
		if err != nil {
			return f, err
		}
		f.Raw = append(f.Raw, raw)
	}
	return f, nil
}

// refused returns an *Error that names the field for an error of Model.Chat, and any other error as it is.
func (c *chat) refused(err error) error {
	field, reason := "tools", err.Error()
	var overflow *generation.OverflowError
	unusable, _ := errors.AsType[*format.UnusableError](err)
	switch at, rest, _ := strings.Cut(reason, ": "); {
	case errors.As(err, &overflow):
		return Refuse("messages", "have, with the tools, %s tokens; with an answer that is more than the model's context of %d", overflow.Count(), c.served.Window)
	case errors.As(err, new(*format.TemplateError)):
		field = "messages"
	case unusable == nil:
		return err
	case unusable.Schema && c.Structured != nil:
		field = "structured_outputs"
	case unusable.Schema:
		field = "response_format.json_schema.schema"
	case strings.HasPrefix(at, "tools["):
		field, reason = at+".function", rest
	}
	return Refuse(field, "%s", reason)
}

// read makes the message and the finish_reason of a completion. Content is null without a text, but for a stop.
func (c *chat) read(i int, done *generation.Completion) (message *said, reason string, err error) {
	var text string
	var calls []tools.Call
	switch reason = finish(done.Finish); {
	case reason == "abort" && aborted(c.request):
		text, calls = c.answers.Cut(done.Text)
	case done.Err != nil:
		return nil, "", done.Err
	case c.stopped(done):
		text, reason = c.answers.SoFar(done.Text), "stop"
	case reason == "length":
		text, calls = c.answers.Cut(done.Text)
	default:
		if text, calls, err = c.answers.Read(done.Text); err != nil {
			return nil, "", &Error{Param: path("choices", i), Message: err.Error() + "; change the messages, or send a request that samples again", Answer: true}
		}
	}
	message = &said{Role: "assistant", ToolCalls: newCalls(calls)}
	if text != "" || reason == "stop" && len(calls) == 0 {
		text, reason, _ = c.Stop.cut(text, reason)
		message.Content = &text
	}
	if len(calls) > 0 && reason == "stop" {
		reason = "tool_calls"
	}
	return message, reason, nil
}

// stopped reports whether a text or a token of the request ended a completion.
func (c *chat) stopped(done *generation.Completion) bool {
	stop, n := c.request.Stop, len(done.Tokens)
	return stop.Ends(done.Text) || stop != nil && done.Stop == "" && n > 0 && slices.Contains(stop.Tokens, done.Tokens[n-1])
}

// tokens adds the ids and logprobs of a part to a choice, if the request asks for them.
func (c *chat) tokens(choice *chatChoice, p part) {
	if c.ReturnIDs {
		choice.IDs = p.ids
	}
	if c.Logprobs {
		choice.Logprobs = chatScoresOf(c.model, p.ids, p.scores, c.top, c.NamedTokens)
	}
}

func (c *chat) answer(object string, u *usage, choices []chatChoice) *chatAnswer {
	return &chatAnswer{ID: c.id, Object: object, Created: c.created, Model: c.served.Name, Choices: choices, Usage: u}
}

// Chat answers POST /v1/chat/completions. With stream it sends the answer to s and returns nil.
func Chat(ctx context.Context, m Model, id string, body []byte, s Stream) ([]byte, error) {
	c, err := newChat(ctx, m, id, body)
	if err != nil {
		return nil, err
	}
	defer begin(ctx, c.request, c.id, c.RequestID)()
	if c.Stream {
		return nil, c.streamTo(ctx, s)
	}
	results, err := single(m, "chat", c.served.Name, c.request)(ctx, nil)
	if err != nil {
		return nil, err
	}
	var choices []chatChoice
	for i := range results[0].Completions {
		message, reason, err := c.read(i, &results[0].Completions[i])
		if err != nil {
			return nil, err
		}
		choice := chatChoice{Index: i, Message: message, FinishReason: &reason}
		c.tokens(&choice, wholeOf(&results[0].Completions[i]))
		choices = append(choices, choice)
	}
	a := c.answer("chat.completion", usageOf(results...), choices)
	if c.ReturnIDs {
		a.PromptIDs = c.request.Prompt
	}
	return Marshal(a)
}

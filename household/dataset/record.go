// Package dataset writes conversations of package household as training text of the
// default model. The agent itself renders the prompts. The planner's decisions are in the
// notation that the model has to write.
package dataset

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/household"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Special tokens of the notation.
const (
	turnStart = "<|im_start|>"
	turnEnd   = "<|im_end|>"
	callOpen  = "<tool_call>"
	callClose = "</tool_call>"
)

// Specials are the special tokens in prompts and answers.
var Specials = []string{
	"<|endoftext|>", turnStart, turnEnd, callOpen, callClose, "<tool_response>", "</tool_response>", "<think>", "</think>",
}

// kit is the toolkit of the model, which is yet to be trained. Its vocabulary has a token for each
// byte and one for each special token.
type kit struct{}

var errNoModel = errors.New("the data set is written without a model")

func (kit) RenderTemplate([]byte) (string, error) { return "", errNoModel }
func (kit) SpecialTokens() []string               { return Specials }

const byteTokens = 256 // the first special token

func (kit) Tokenize(text string, _, _ bool) ([]generation.Token, error) {
	tokens := make([]generation.Token, len(text))
	for i := range len(text) {
		tokens[i] = generation.Token(text[i])
	}
	return tokens, nil
}

func (kit) Find(piece string) (generation.Token, bool) {
	i := slices.Index(Specials, piece)
	return generation.Token(byteTokens + i), i >= 0
}

func (kit) AddBOS() bool          { return false }
func (kit) BOS() generation.Token { return -1 }
func (kit) LongestPiece() int     { return len("</tool_response>") }
func (kit) Size() int             { return byteTokens + len(Specials) }

func (kit) Detokenize(tokens []generation.Token, _ bool) string {
	var b strings.Builder
	for _, p := range Pieces(tokens) {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Pieces returns the text of a prompt's tokens, with special tokens by themselves.
func Pieces(prompt []generation.Token) (pieces []format.Segment) {
	var plain []byte
	flush := func() {
		if len(plain) > 0 {
			pieces = append(pieces, format.Segment{Text: string(plain)})
			plain = plain[:0]
		}
	}
	for _, token := range prompt {
		if token < byteTokens {
			plain = append(plain, byte(token))
			continue
		}
		flush()
		pieces = append(pieces, format.Segment{Text: Specials[token-byteTokens], Special: true})
	}
	flush()
	return pieces
}

// NewAgent is the agent as it serves the default model. The data set needs no constraints.
func NewAgent(constrain string) (*agent.Agent, error) {
	return agent.New(agent.Config{Format: format.Qwen, Prompt: format.Options{Architecture: "qwen3", ChatTemplate: household.ChatTemplate}, Constrain: constrain}, kit{}, kit{})
}

// Notation is a decision as the model writes it.
func Notation(d protocol.AgentDecision) (string, error) {
	var b strings.Builder
	b.WriteString(d.Say)
	for i, c := range d.ToolCalls {
		if i > 0 {
			b.WriteByte('\n')
		}
		arguments := protocol.AppendMember(c.Arguments.Clone(), "target_robot", protocol.String(c.TargetRobotName))
		if err := arguments.Format(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)); err != nil {
			return "", fmt.Errorf("the arguments of %s: %w", c.Name, err)
		}
		fmt.Fprintf(&b, "%s\n{\"name\": %s, \"arguments\": %s}\n%s", callOpen, protocol.String(c.Name), arguments, callClose)
	}
	return b.String(), nil
}

// writer is a generator that returns a given answer and keeps the prompt.
type writer struct {
	answer string
	prompt []format.Segment
}

// GenerateAll answers the one generation of a request.
func (w *writer) GenerateAll(_ context.Context, requests []generation.Request, done func(int, *generation.Result, error)) {
	for i := range requests {
		w.prompt = Pieces(requests[i].Prompt)
		done(i, &generation.Result{Completions: []generation.Completion{{Text: w.answer, Stop: turnEnd, Finish: generation.FinishStop}}}, nil)
	}
}

// Keep does nothing: there is no queue.
func (*writer) Keep(int) {}

// Turn is one decision: what the agent showed the model, and its answer.
type Turn struct {
	Prompt []format.Segment
	Answer string
	Wrong  bool // a blunder, read but not learned
}

// blunders is the percentage of wrong calls in a clumsy recording.
const blunders = 25

// Step takes the planner's decision in an episode.
func Step(ctx context.Context, a *agent.Agent, e *household.Episode) error {
	_, err := step(ctx, a, e, e.Expected())
	return err
}

// step takes a decision, and returns what the model was shown and would have to write.
func step(ctx context.Context, a *agent.Agent, e *household.Episode, d protocol.AgentDecision) (Turn, error) {
	answer, err := Notation(d)
	if err != nil {
		return Turn{}, err
	}
	w := &writer{answer: answer}
	plan, err := a.Prepare(&protocol.AgentRequest{RequestID: "dataset", Inputs: []protocol.AgentInput{e.Input()}}, nil)
	if err != nil {
		return Turn{}, err
	}
	outputs, err := a.Run(ctx, plan, w)
	if err != nil {
		return Turn{}, err
	}
	out := &outputs[0]
	if out.Error != nil {
		return Turn{}, fmt.Errorf("%q: %s", answer, out.Error.Message)
	}
	if !household.Same(*out.Output, d) {
		return Turn{}, fmt.Errorf("%q is read as another decision, %v", answer, *out.Output)
	}
	e.Apply(*out.Output, out.Memory)
	return Turn{Prompt: w.prompt, Answer: answer}, nil
}

// Record runs an episode to its end with the planner's decisions, and returns its turns.
// errs is the source of wrong decisions; nil: there are none.
func Record(ctx context.Context, a *agent.Agent, e *household.Episode, errs *rand.Rand) ([]Turn, error) {
	var turns []Turn
	for !e.Done() {
		d, wrong := e.Expected(), false
		if errs != nil && errs.IntN(100) < blunders {
			if other, ok := e.Blunder(errs); ok {
				d, wrong = other, true
			}
		}
		turn, err := step(ctx, a, e, d)
		if err != nil {
			return nil, fmt.Errorf("decision %d: %w", len(turns)+1, err)
		}
		turn.Wrong = wrong
		turns = append(turns, turn)
	}
	return turns, nil
}

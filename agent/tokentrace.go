package agent

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// wanted is what extra_keys.return asks for besides the decision.
type wanted struct {
	tokenIDs, logprobs, masks bool
}

// Names in extra_keys.return.
const (
	returnTokenIDs = "token_ids"
	returnLogprobs = "logprobs"
	returnMask     = "sampling_mask"
	returnNames    = `"` + returnTokenIDs + `", "` + returnLogprobs + `" or "` + returnMask + `"`
)

// add adds a name of extra_keys.return. It returns false for an unknown name.
func (w *wanted) add(name string) bool {
	switch name {
	case returnTokenIDs:
		w.tokenIDs = true
	case returnLogprobs:
		w.logprobs = true
	case returnMask:
		w.masks = true
	default:
		return false
	}
	return true
}

// ReturnName returns s if it is a name of extra_keys.return, else an error that lists them.
func ReturnName(s string) (string, error) {
	if !new(wanted).add(s) {
		return "", fmt.Errorf("got %q, want %s", s, returnNames)
	}
	return s, nil
}

func (w wanted) any() bool { return w.tokenIDs || w.logprobs || w.masks }

// scores reports whether the engine must return a generation.Score for each token.
func (w wanted) scores() bool { return w.logprobs || w.masks }

// Estimates of the bytes that a token takes in a step.
const (
	bytesOfID    = 7
	bytesInChain = 6 // in the memory, see chain
	bytesOfScore = 40
	bytesOfText  = 3 // of the prompt's text; low, so that the estimate of its tokens is high
)

// bytes estimates the bytes that a candidate returns: promptText and attributes are bytes, answer is tokens.
func (w wanted) bytes(promptText, answer, attributes int) (n int) {
	if w.tokenIDs {
		n += (promptText/bytesOfText+answer)*(bytesOfID+bytesInChain) + attributes
	}
	if w.logprobs {
		n += answer * bytesOfScore
	}
	if w.masks {
		n += min(answer*generation.MaxMask, generation.MaxMasks+answer) * bytesOfID
	}
	return n
}

func (a *Agent) readReturn(v protocol.Raw) (w wanted, problems protocol.Problems) {
	const name = "return"
	if v.Kind() != '[' {
		return w, rawjson.Wrong(protocol.TypeList, "a list of "+returnNames, v, name)
	}
	i := 0
	for e := range protocol.Elements(v) {
		switch text, ok := protocol.Text(e); {
		case ok && text == returnLogprobs && a.cfg.NoLogprobs != "":
			problems = append(problems, protocol.NewProblem(protocol.TypeValue, a.cfg.NoLogprobs+"; leave "+text+" out", name, i))
		case ok && text == returnMask && a.cfg.NoMasks != "":
			problems = append(problems, protocol.NewProblem(protocol.TypeValue, a.cfg.NoMasks+"; leave "+text+" out", name, i))
		case !ok || !w.add(text):
			problems = append(problems, protocol.NewProblem(protocol.TypeLiteral, "it must be "+returnNames, name, i))
		}
		i++
	}
	return w, problems
}

// appendScores appends the logprobs and the sum of those that exist: forced tokens and extra_keys.continue have none.
func appendScores(b []byte, c *generation.Completion) []byte {
	sum := 0.0
	for i := range c.Scores {
		if p := float64(c.Scores[i].Logprob); !c.Scores[i].Forced && !math.IsNaN(p) && !math.IsInf(p, 0) {
			sum += p
		}
	}
	b = append(b, `,"logprobs":`...)
	b = rawjson.AppendList(b, c.Scores, func(b []byte, s generation.Score) []byte { return appendFloat(b, float64(s.Logprob), 32) })
	if !c.OnlyLogprobs {
		b = append(b, `,"masked":`...)
		b = rawjson.AppendList(b, c.Scores, func(b []byte, s generation.Score) []byte {
			if s.Mask == nil {
				return appendFloat(b, s.Masked, 32)
			}
			return appendFloat(b, s.Masked, 64)
		})
		b = append(b, `,"forced":`...)
		b = appendWhere(b, c.Scores, func(s *generation.Score) bool { return s.Forced })
		b = append(b, `,"drafted":`...)
		b = appendWhere(b, c.Scores, func(s *generation.Score) bool { return s.Drafted })
	}
	b = append(b, `,"sum_logprob":`...)
	return appendFloat(b, sum, 64)
}

func appendInt[T ~int | ~int32](b []byte, n T) []byte { return strconv.AppendInt(b, int64(n), 10) }

func appendWhere(b []byte, scores []generation.Score, is func(*generation.Score) bool) []byte {
	var at []int
	for i := range scores {
		if is(&scores[i]) {
			at = append(at, i)
		}
	}
	return rawjson.AppendList(b, at, appendInt)
}

// appendFloat appends a number, null if it is not finite.
func appendFloat(b []byte, x float64, bits int) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, x, 'g', -1, bits)
}

// nextPromptDiffers returns the index of the first token of a prompt and its answer that the next turn's prompt does
// not begin with: -1 if it begins with all of them, 0 if it can't be rendered. The next turn has the candidate's
// memory, the same tools, and as instruction a result if the candidate has calls, else a user's.
func (a *Agent) nextPromptDiffers(ctx context.Context, in *inputRun, out *protocol.AgentOutput, prompt, answer []generation.Token) int {
	input := *in.input
	input.Memory = out.Memory
	input.Instruction = protocol.AgentInstruction{Type: protocol.InstructionUser, Content: nextInstruction}
	if len(out.Output.ToolCalls) > 0 {
		input.Instruction.Type = protocol.InstructionEnv
	}
	next := inputRun{input: &input, catalog: in.catalog, returns: in.returns}
	var problems protocol.Problems
	if next.memory, problems = memory.Parse(input.Memory, a.format.StateKey()); len(problems) > 0 {
		return 0
	}
	rendered, err := a.rendered(&next, false)
	if err != nil {
		return 0
	}
	ids, err := a.tokenizer.Tokens(ctx, rendered.Segments)
	if err != nil {
		return 0
	}
	for i, want := range slices.Concat(prompt, answer) {
		if i == len(ids) || ids[i] != want {
			return i
		}
	}
	return -1
}

// differs returns nextPromptDiffers for a completed candidate. It is computed once for
// candidates with the same tokens, whose next prompt is the same.
func (a *Agent) differs(ctx context.Context, in *inputRun, out *protocol.AgentOutput, step *stepMaker, c *generation.Completion) int {
	answer := c.All()
	key := string(tokenBytes(answer))
	at, known := step.next[key]
	if !known {
		at = a.nextPromptDiffers(ctx, in, out, in.request.Prompt, answer)
		step.next[key] = at
	}
	return at
}

const nextInstruction = "?" // in place of the next turn's instruction, which is not known yet

package agent

import (
	"cmp"
	"crypto/sha256"
	"fmt"

	"agentd/agent/format"
	"agentd/agent/internal/rawjson"
	"agentd/internal/base/conformal"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// KeyAsk is the member of extra_keys that names the coaching session whose coaches are asked.
const KeyAsk = "ask"

// Values of ask.outcome in a step.
const (
	AskSure     = "sure"     // the set has at most one option, so nobody was asked
	AskChosen   = "chosen"   // a coach chose
	AskFallback = "fallback" // the set has several options and no coach chose, so the most probable was taken
)

// Ask is the result of a calibration: the threshold with which a set of options is made (conformal prediction).
type Ask struct {
	Error     float64 // the error rate for which it was calibrated, as of a set that lacks the right option
	Threshold float64 // see conformal.Set
	Model     string  // version of the calibrated model
	Format    string  // formatOf its prompts
}

// CalibrationError reports a calibration for another model or other prompts.
type CalibrationError struct{ what, theirs, ours string }

func (e *CalibrationError) Error() string {
	return fmt.Sprintf("the calibration is of the %s %s, and this server has %s; calibrate decisions of this server, or start it as the other one", e.what, e.theirs, e.ours)
}

// CheckAsk returns a *CalibrationError if Config.Ask was calibrated for another version of the model or other prompts.
func (a *Agent) CheckAsk(version string) error {
	switch ask := a.cfg.Ask; {
	case ask == nil:
	case ask.Model != version:
		return &CalibrationError{"model", ask.Model, version}
	case ask.Format != a.formatID:
		return &CalibrationError{"prompt format", ask.Format, a.formatID}
	}
	return nil
}

// formatOf names the settings on which the probabilities of options depend besides the model: the prompt's format,
// the form of calls, and a hash of the rest.
func formatOf(cfg *Config, f format.Format) string {
	p := cfg.Prompt
	rest := sha256.Sum256(fmt.Appendf(nil, "%#v", []any{
		p.ChatTemplate, p.ReasoningEffort, p.OutputStyle == format.StyleJSON, p.MixedOutput, p.CallsPerRobot, p.EnableThinking, cfg.DefaultRobot, cfg.HistoryMaxMessages, cfg.Kind, cfg.Summary,
	}))
	return fmt.Sprintf("%s %s %x", f.Name(), cmp.Or(f.CallForm(), format.FormNative), rest[:6])
}

func (a *Agent) readAsk(v protocol.Raw) (asked bool, problems protocol.Problems) {
	switch session, ok := protocol.Text(v); {
	case !ok:
		return false, rawjson.Wrong(protocol.TypeString, "the run_id of a coaching session", v, KeyAsk)
	case session == "" || len(session) > protocol.MaxID:
		return false, protocol.Problems{protocol.NewProblem(protocol.TypeValue, fmt.Sprintf("it must be the run_id of a coaching session, of 1 to %d bytes", protocol.MaxID), KeyAsk)}
	case a.cfg.Ask == nil:
		return false, protocol.Problems{protocol.NewProblem(protocol.TypeValue, "this server has no calibration, so no decision is known to be unsure (docs/decide.md); leave "+KeyAsk+" out", KeyAsk)}
	}
	return true, nil
}

// checkAsk refuses extra_keys.ask where decisions have no set of options.
func (in *inputRun) checkAsk() protocol.Problems {
	var reason string
	switch {
	case in.options == nil:
		reason = "only decisions with options have exact probabilities; add options, or leave ask out"
	case in.input.NumOutputs > 1:
		reason = "a coach chooses one candidate; set num_outputs to 1, or leave ask out"
	case in.adapter.Name != "":
		reason = "the calibration is of the model without an adapter; leave ask or adapter out"
	default:
		return nil
	}
	return protocol.Problems{protocol.NewProblem(protocol.TypeValue, reason, KeyAsk)}
}

// appendChances appends members for the step of the most probable option: the format that a calibration must name, the
// probabilities of all options in their order, and the set of options.
func (a *Agent) appendChances(b []byte, in *inputRun, list []generation.Option) []byte {
	probabilities := make([]float64, len(in.options))
	for i := range list {
		probabilities[list[i].Index] = list[i].Probability
	}
	number := func(b []byte, x float64) []byte { return appendFloat(b, x, 64) }
	b = rawjson.AppendString(append(b, `,"format":`...), a.formatID)
	b = rawjson.AppendList(append(b, `,"probabilities":`...), probabilities, number)
	ask := a.cfg.Ask
	if ask == nil || in.adapter.Name != "" {
		return b
	}
	set, outcome := conformal.Set(probabilities, ask.Threshold), AskSure
	if len(set) > 1 {
		outcome = AskFallback
	}
	b = number(append(b, `,"ask":{"error":`...), ask.Error)
	b = number(append(b, `,"threshold":`...), ask.Threshold)
	b = rawjson.AppendList(append(b, `,"set":`...), set, appendInt)
	b = rawjson.AppendString(append(b, `,"outcome":`...), outcome)
	if outcome == AskFallback {
		b = rawjson.AppendString(append(b, `,"reason":`...), "the input names no coaching session in extra_keys."+KeyAsk)
	}
	return append(b, '}')
}

package agent_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/agent/format"
	toolset "agentd/agent/tools"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

func replies(texts ...string) (answers []protocol.AgentDecision) {
	for _, text := range texts {
		answers = append(answers, protocol.AgentDecision{Say: text})
	}
	return answers
}

// GPT-OSS writes marks before a reply. All labels have them, so they belong to the prompt.
func TestMarksBeforeLabelsAreOfThePrompt(t *testing.T) {
	a := newAgent(t, agent.Config{Format: format.GPTOSS}, nil)
	r, err := a.Choice(t.Context(), chatWith(toolset.Functions{}, ""), replies("A", "B"), false)
	if err != nil {
		t.Fatal(err)
	}
	if text := textOf(r.Prompt); !strings.HasSuffix(text, "<|start|>assistant<|channel|>final<|message|>") {
		t.Errorf("the prompt ends with %q", text[max(0, len(text)-80):])
	}
	c := r.Choice
	if c == nil || c.Whole || len(c.Answers) != 2 || textOf(c.Answers[0][0]) != "A" || textOf(c.Answers[1][0]) != "B" || r.N != 1 || len(r.Seeds) != 1 || r.MaxTokens < c.MaxTokens() || r.Grammar != "" {
		t.Errorf("%+v", r)
	}
}

func TestWholeAnswersHaveTheirMarks(t *testing.T) {
	a := newAgent(t, agent.Config{Format: format.GPTOSS}, nil)
	call := protocol.AgentDecision{ToolCalls: []toolset.Call{{Name: "weather", Arguments: protocol.Raw(`{"city":"Rome"}`)}}}
	r, err := a.Choice(t.Context(), chatWith(weather(false, true), ""), append(replies("unsure"), call), true)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"<|channel|>final<|message|>unsure", ` to=functions.weather<|channel|>commentary json<|message|>{"city": "Rome"}`} {
		if got := textOf(r.Choice.Answers[i][0]); got != want || !r.Choice.Whole {
			t.Errorf("answer %d is %q, want %q", i, got, want)
		}
	}
}

func TestAnswersThatCannotBeChosenAreNamed(t *testing.T) {
	call := func(name, arguments string) []protocol.AgentDecision {
		return append(replies("a"), protocol.AgentDecision{ToolCalls: []toolset.Call{{Name: name, Arguments: protocol.Raw(arguments)}}})
	}
	for name, c := range map[string]struct {
		cfg     agent.Config
		answers []protocol.AgentDecision
		whole   bool
		says    string
	}{
		"an unknown function": {agent.Config{Format: format.GPTOSS}, call("fly", `{}`), true, "option 1: "},
		"an unknown function in a fence": {agent.Config{Prompt: format.Options{Architecture: "qwen2", OutputStyle: format.FormFenced}}, call("fly", `{}`), true,
			`option 1: the tool "fly" is unknown; known are weather`},
		"arguments that don't fit": {agent.Config{Format: format.GPTOSS}, call("weather", `{"city":1}`), true, "option 1: "},
		"one without tokens":       {agent.Config{}, replies("A", "B"), false, "option 0: it has no tokens of its own"}, // words join the line break
	} {
		_, err := newAgent(t, c.cfg, nil).Choice(t.Context(), chatWith(weather(false, true), ""), c.answers, c.whole)
		var wrong *agent.ChoiceError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	none := newAgent(t, agent.Config{Format: format.GPTOSS, NoDistinct: "engines at URLs can't"}, nil)
	if _, err := none.Choice(t.Context(), chatWith(toolset.Functions{}, ""), replies("A", "B"), false); !errors.Is(err, agent.ErrNoChoice) || !strings.Contains(err.Error(), "engines at URLs") {
		t.Error(err)
	}
	thinks := newAgent(t, agent.Config{Prompt: format.Options{Architecture: "qwen3", EnableThinking: true}}, nil)
	if _, err := thinks.Choice(t.Context(), chatWith(toolset.Functions{}, ""), replies("A", "B"), false); !errors.Is(err, format.ErrThinks) {
		t.Error(err)
	}
}

// chances answers every choice with these probabilities.
func chances(p ...float64) *script {
	return &script{answers: []string{""}, adjust: func(r *generation.Result) {
		c := &generation.Chances{Rows: 3, Omitted: 0.001}
		for _, x := range p {
			c.Logprobs, c.Paths = append(c.Logprobs, math.Log(x)), append(c.Paths, 2)
		}
		r.Completions = []generation.Completion{{Finish: generation.FinishStop, Chances: c}}
	}}
}

func TestCandidatesAreTheOptionsByProbability(t *testing.T) {
	a := newAgent(t, agent.Config{Format: format.GPTOSS}, nil)
	in := `{` + tools + `,"num_outputs":4,"extra_keys":{"inference_mode":true,"options":["unsure",{"say":"","tool_calls":[{"name":"move","arguments":{"to":"hall"},"target_robot_name":"b"}]},{"say":"no"}]}}`
	g := chances(0.1, 0.3, 0)
	outs := run(t, a, g, request(t, in))
	if len(g.asked) != 1 || g.asked[0].Choice == nil || g.asked[0].N != 1 {
		t.Fatalf("%+v", g.asked)
	}
	if outs[0].Output == nil || len(outs[0].Output.ToolCalls) != 1 || outs[0].Output.ToolCalls[0].TargetRobotName != "b" || outs[1].Output == nil || outs[1].Output.Say != agent.Unsure {
		t.Errorf("%+v", outs)
	}
	if step := string(outs[0].InternalSteps[0]); !strings.Contains(step, `"option":1`) || !strings.Contains(step, `"probability":0.7`) || !strings.Contains(step, `"label_mass":0.4`) || !strings.Contains(step, `"omitted":0.001`) || !strings.Contains(step, `"paths":2`) {
		t.Error(step)
	}
	for _, out := range outs[2:] {
		if out.Error == nil || out.Error.Code != agent.CodeFewerCandidates || strings.Contains(out.Error.Message, "extra_keys.candidates") {
			t.Errorf("%+v", out)
		}
	}
}

func TestOptionsThatAreNoDecisionsOfTheInputAreErrors(t *testing.T) {
	a := newAgent(t, agent.Config{Format: format.GPTOSS}, nil)
	for name, c := range map[string]struct{ option, says string }{
		"an unknown tool":  {`{"tool_calls":[{"name":"fly","arguments":{},"target_robot_name":"a"}]}`, `tool "fly" is unknown`},
		"an unknown robot": {`{"tool_calls":[{"name":"look","arguments":{},"target_robot_name":"c"}]}`, `unknown robot "c"`},
		"nothing":          {`{}`, "the decision has neither a reply nor a tool call"},
	} {
		g := chances(0.5, 0.5)
		out := run(t, a, g, request(t, `{`+tools+`,"extra_keys":{"inference_mode":true,"options":["unsure",`+c.option+`]}}`))[0]
		if out.Error == nil || out.Error.Code != agent.CodeInvalidOptions || !strings.HasPrefix(out.Error.Message, "extra_keys.options: option 1: ") || !strings.Contains(out.Error.Message, c.says) || len(g.asked) > 0 {
			t.Errorf("%s: %+v", name, out.Error)
		}
	}
}

func TestWrongOptionsAreRefusedByName(t *testing.T) {
	a := newAgent(t, agent.Config{Format: format.GPTOSS}, nil)
	for name, c := range map[string]struct{ keys, where string }{
		"no list":           {`"options":{}`, "options"},
		"one option":        {`"options":["unsure"]`, "options"},
		"equal options":     {`"options":["unsure",{"say":"unsure"}]`, "options[1]"},
		"a text":            {`"options":["unsure","sure"]`, "options[1]"},
		"too many":          {`"options":[` + strings.Repeat(`"unsure",`, 255) + `"unsure"]`, "options"},
		"with candidates":   {`"options":["unsure",{"say":"a"}],"candidates":{"distinct":true}`, "options"},
		"with a correction": {`"options":["unsure",{"say":"a"}],"coaching":{"kind":"replace_say","text":"x"}`, "options"},
		"with token ids":    {`"options":["unsure",{"say":"a"}],"return":["token_ids"]`, "options"},
		"to be continued":   {`"options":["unsure",{"say":"a"}],"continue":[[]]`, "options"},
	} {
		_, err := a.Prepare(request(t, `{"extra_keys":{"inference_mode":true,`+c.keys+`}}`), nil)
		var problems protocol.Problems
		if !errors.As(err, &problems) || !strings.HasSuffix(problems[len(problems)-1].Path(), "extra_keys."+c.where) && !strings.HasSuffix(problems[0].Path(), "extra_keys."+c.where) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.Prepare(request(t, `{"extra_keys":{"options":["unsure",{"say":"a"}]}}`), nil); err == nil || !strings.Contains(err.Error(), "inference_mode") {
		t.Error(err)
	}
}

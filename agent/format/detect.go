package format

import (
	"errors"
	"fmt"
	"strings"
)

// aliases are the names that the first implementation gave the formats.
var aliases = map[string]string{"harmony": GPTOSS, "magma": Template, "gptoss": GPTOSS, "gpt_oss": GPTOSS}

// Detect chooses a format by a model's architecture and chat template, either of
// which may be "".
func Detect(architecture, template string) (string, error) {
	arch := strings.ToLower(architecture)
	switch {
	case madeForAgent(template):
		return Template, nil
	case strings.HasPrefix(arch, "gpt-oss"), strings.HasPrefix(arch, "gptoss"), strings.Contains(template, "<|channel|>"):
		return GPTOSS, nil
	case template == "" && strings.HasPrefix(arch, "qwen"),
		strings.Contains(template, "<|im_start|>") &&
			(strings.HasPrefix(arch, "qwen") || strings.Contains(template, callOpen)):
		return Qwen, nil
	case isLlama(template):
		return Llama, nil
	case template != "":
		return Template, nil
	}
	return "", fmt.Errorf("no format is known for the architecture %q without a chat template; "+
		"set Config.Format, or Config.Prompt.ChatTemplate", architecture)
}

// Resolve is the name of a format: an alias replaced, "" and "auto" detected.
func Resolve(name, architecture, template string) (string, error) {
	switch name {
	case "", "auto":
		return Detect(architecture, template)
	case Qwen, GPTOSS, Llama, Template:
		return name, nil
	}
	if resolved, ok := aliases[name]; ok {
		return resolved, nil
	}
	return "", fmt.Errorf("model_format %q is unknown; use auto, %s, %s, %s or %s", name, Qwen, GPTOSS, Llama, Template)
}

// New makes the format of that name, as Resolve returns it.
func New(name string, o Options) (Format, error) {
	if o.ModelAPI == nil {
		return nil, errors.New("format: Options.ModelAPI is missing")
	}
	switch o.MixedOutput {
	case "":
		o.MixedOutput = MixedReject
	case MixedReject, MixedTools:
	default:
		return nil, fmt.Errorf("mixed_output %q is unknown; use %s or %s", o.MixedOutput, MixedReject, MixedTools)
	}
	if o.OutputStyle == StyleJSON && name != Template {
		return nil, fmt.Errorf("output_style %s is a style of model_format %s, and this model's is %s; leave it out, or set Config.Format %s",
			StyleJSON, Template, name, Template)
	}
	if o.EnableThinking && name == GPTOSS {
		return nil, fmt.Errorf("enable_thinking is for other models: GPT-OSS always reasons; leave it out, and set reasoning_effort")
	}
	if effort := o.ReasoningEffort; effort != "" && effort != defaultEffort && name != GPTOSS {
		return nil, fmt.Errorf("reasoning_effort %q is for GPT-OSS, and this model's format is %s; leave it out, or set enable_thinking", effort, name)
	}
	switch name {
	case Qwen:
		return newQwen(o)
	case GPTOSS:
		return newGPTOSS(o)
	case Llama:
		return newLlama(o)
	case Template:
		return newTemplate(o)
	}
	return nil, fmt.Errorf("no format is called %q", name)
}

package format

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Aliases are the names that the first implementation gave the formats.
var Aliases = map[string]string{"harmony": GPTOSS, "magma": Template, "gptoss": GPTOSS, "gpt_oss": GPTOSS}

// Detect chooses a format by a model's architecture and chat template; either may be "".
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

// Resolve returns the name of a format: it replaces an alias, and detects the format for "" and "auto".
func Resolve(name, architecture, template string) (string, error) {
	switch {
	case name == "" || name == "auto":
		return Detect(architecture, template)
	case slices.Contains(Names, name):
		return name, nil
	}
	if resolved, ok := Aliases[name]; ok {
		return resolved, nil
	}
	return "", fmt.Errorf("model_format %q is unknown; use auto, %s", name, strings.Join(Names, ", "))
}

// New makes the format of a name that Resolve returned.
func New(name string, o Options) (Format, error) {
	if o.ModelAPI == nil {
		return nil, errors.New("format: Options.ModelAPI is missing")
	}
	r := rules{form: FormNative, next: callArguments, mixed: cmp.Or(o.MixedOutput, MixedReject), once: cmp.Or(o.CallsPerRobot, CallsOne) == CallsOne}
	if r.mixed != MixedReject && r.mixed != MixedTools {
		return nil, fmt.Errorf("mixed_output %q is unknown; use %s or %s", o.MixedOutput, MixedReject, MixedTools)
	}
	if !r.once && o.CallsPerRobot != CallsAny {
		return nil, fmt.Errorf("calls_per_robot %q is unknown; use %s or %s", o.CallsPerRobot, CallsOne, CallsAny)
	}
	if slices.Contains(Forms, o.OutputStyle) {
		r.form, o.OutputStyle = o.OutputStyle, ""
	}
	if o.OutputStyle == StyleJSON && name != Template {
		return nil, fmt.Errorf("Config.Prompt.OutputStyle %s is for Config.Format %s, and this model's is %s; leave it out, or set Config.Format %s",
			StyleJSON, Template, name, Template)
	}
	if o.EnableThinking && name == GPTOSS {
		return nil, errors.New("Config.Prompt.EnableThinking is for other models: GPT-OSS always reasons; leave it out, and set Config.Prompt.ReasoningEffort")
	}
	if effort := o.ReasoningEffort; effort != "" && effort != defaultEffort && name != GPTOSS {
		return nil, fmt.Errorf("Config.Prompt.ReasoningEffort %s is for GPT-OSS, and this model's format is %s; leave it out, or set Config.Prompt.EnableThinking", effort, name)
	}
	specials := o.ModelAPI.SpecialTokens()
	c := common{rules: r, name: name, suppressControl: true, showsResults: true, split: newSplitter(specials)}
	switch c.think = o.EnableThinking; {
	case c.think:
		c.effort = "on"
	case o.ChatTemplate == "" || strings.Contains(o.ChatTemplate, "think"):
		c.effort = "none"
	}
	switch name {
	case Qwen:
		return newQwen(o, c)
	case GPTOSS:
		return newGPTOSS(o, c)
	case Llama:
		return newLlama(o, c, slices.Contains(specials, pythonTag))
	case Template:
		return newTemplate(o, c)
	}
	return nil, fmt.Errorf("no format is called %q", name)
}

package cli

import (
	"fmt"
	"strings"
)

// Command is a line of the program's help.
type Command struct{ Name, Usage, About string }

// Commands are the program's commands, in the order of its help.
var Commands = []Command{
	{"serve", "agentd [serve] [options]", "start the server"},
	{"pull", "agentd pull OWNER/REPO[:FILE]", "get a model of a Hugging Face hub"},
	{"console", "agentd console [options]", "start the web page on which people coach"},
	{"demo", "agentd demo [options]", "show a running server at work in a simulated household"},
	{"check", "agentd check URL [options]", "judge an agent server of protocol 2.0"},
	{"export", "agentd export [options] PATH...", "make training data of what agents decided"},
	{"calibrate", "agentd calibrate [options] PATH...", "find from records when to ask a person"},
	{"convert", "agentd convert [options] DIR FILE", "write a Hugging Face checkpoint as a GGUF file"},
	{"make-model", "agentd make-model [options]", "write a model with random weights"},
	{"completion", "agentd completion bash|zsh|fish", "print completions for a shell"},
	{"man", "agentd man", "print the manual page"},
	{"version", "agentd version", "print the version"},
	{"help", "agentd help [COMMAND]", "print this page, or that of a command"},
}

// Usage lists the commands, one a line.
func Usage() string {
	var b strings.Builder
	for _, c := range Commands {
		fmt.Fprintf(&b, "  %-34s%s\n", c.Usage, c.About)
	}
	return b.String()
}

// Names lists the commands in a sentence.
func Names() string {
	names := make([]string, len(Commands))
	for i, c := range Commands {
		names[i] = c.Name
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

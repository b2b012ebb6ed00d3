package main

import (
	"fmt"
	"io"
	"strings"
)

const (
	helpWidth  = 88 // columns of the help page
	helpIndent = 28 // column where an option's text begins
)

// writeHelp prints the page of agentbench --help.
func writeHelp(w io.Writer) {
	fmt.Fprint(w, `agentbench measures how many decisions a second a server makes on agent workloads: prompts
with shared prefixes, several candidates of a prompt, short structured answers.

Usage
  agentbench run [options]           send a trace to a server and measure
  agentbench trace [options]         write a trace to a file
  agentbench compare FILE.json…      show results side by side, and plots
  agentbench suite [options]         the standard comparison of make bench
  agentbench version                 print the version

Each command has a page: agentbench run --help.

Examples
  agentbench trace --agents 16 --turns 6 --candidates 4 --model m.gguf --out t.jsonl
  agentbench run --url http://127.0.0.1:8888 --trace t.jsonl --fixed-tokens 32 --out a.json
  agentbench run --target llama-server --url http://127.0.0.1:8080 --trace t.jsonl \
      --fixed-tokens 32 --out b.json
  agentbench compare a.json b.json --plots plots.svg
`)
}

// writeHelp prints the page of a subcommand.
func (c *command) writeHelp(w io.Writer) {
	fmt.Fprint(w, c.page)
	for _, group := range c.groups {
		fmt.Fprintf(w, "\n%s\n", group)
		for _, o := range c.options {
			if o.group == group {
				writeOption(w, o)
			}
		}
	}
	if c.tail != "" {
		fmt.Fprintf(w, "\n%s", c.tail)
	}
}

// writeOption prints one option: its flag, its text and its default.
func writeOption(w io.Writer, o option) {
	flag := "  --" + o.name
	if o.arg != "" {
		flag += " " + o.arg
	}
	text := o.usage
	if d := o.value.String(); d != "" && d != "0" && d != "false" && d != "0s" {
		text += " [" + d + "]"
	}
	if len(flag) > helpIndent-2 {
		fmt.Fprintln(w, flag)
		flag = ""
	}
	for _, line := range wrap(text, helpWidth-helpIndent) {
		fmt.Fprintf(w, "%-*s%s\n", helpIndent, flag, line)
		flag = ""
	}
}

// wrap breaks text into lines of at most width bytes.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}

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

// writeHelp prints the page of agentd --help.
func writeHelp(w io.Writer) {
	c := defaultConfig()
	opts := options(&c)

	fmt.Fprint(w, `agentd serves a full-history agent over HTTP: it takes batches of inputs, asks a
llama.cpp model and returns one checked decision for every candidate.

Usage
  agentd [serve] [options]     start the server
  agentd console [options]     start the web page on which people coach
  agentd demo [options]        show a running server at work in a simulated household
  agentd eval [options]        measure how well a model decides
  agentd make-model [options]  write a random-weight model, to try things without a real one
  agentd version               print the version

Examples
  agentd
      serve the model inside agentd on 127.0.0.1:8888, for robots in small simulated
      households; README.md has a first request for it
  agentd --model Qwen3-8B-Q4_K_M.gguf --context-length 65536 --parallel 32
  agentd --model gpt-oss-20b-mxfp4.gguf --quantization auto --reasoning-effort low
  agentd --config agentd.json --port 9000
      explicit options win over the file
`)
	writeOptions(w, opts, groups...)
	fmt.Fprint(w, `
Where values come from
  Defaults, then the configuration file, then AGENTD_* variables, then options; each wins
  over the one before. The variable of --max-new-tokens is AGENTD_MAX_NEW_TOKENS and its key
  in the file is max_new_tokens. The file may gather the model's keys in one object:
    {"host": "0.0.0.0", "port": 8888,
     "model": {"path": "Qwen3-8B-Q4_K_M.gguf", "format": "qwen", "max_new_tokens": 512}}
  Unknown options, unknown keys and bad values end the program with the name and the fix.

Signals
  SIGTERM or SIGINT stops taking work, finishes what is in flight within --drain-timeout and
  exits with 0. A second one exits at once with 1.
`)
}

// writeOptions prints the options of groups under their headings.
func writeOptions(w io.Writer, opts []option, groups ...string) {
	for _, group := range groups {
		fmt.Fprintf(w, "\n%s\n", group)
		for _, o := range opts {
			if o.group == group {
				writeOption(w, o)
			}
		}
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
	lines := wrap(text, helpWidth-helpIndent)
	if len(flag) > helpIndent-2 {
		fmt.Fprintln(w, flag)
		flag = ""
	}
	for _, line := range lines {
		fmt.Fprintf(w, "%-*s%s\n", helpIndent, flag, line)
		flag = ""
	}
}

// wrap breaks text between words into lines of at most width bytes.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

package main

import (
	"fmt"
	"io"
)

// writeHelp prints the page of agentbench --help.
func writeHelp(w io.Writer) {
	fmt.Fprint(w, `agentbench measures how many decisions a second a server makes on agent workloads: prompts
with shared prefixes, several candidates of a prompt, short structured answers.

Usage
  agentbench run [options]           send a trace to a server and measure
  agentbench compare FILE.json…      show results side by side, and plots
  agentbench suite [options]         the standard comparison of make bench
  agentbench version                 print the version

Each command has a page: agentbench run --help.

Examples
  agentbench run --url http://127.0.0.1:8888 --model m.gguf --fixed-tokens 32 --out a.json
      the server needs agentd --debug fixed-tokens=32
  agentbench run --target llama-server --url http://127.0.0.1:8080 --model m.gguf \
      --fixed-tokens 32 --out b.json
  agentbench compare a.json b.json --plots plots.svg
`)
}

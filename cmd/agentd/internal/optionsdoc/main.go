// Command optionsdoc writes docs/options.md from the options of agentd: go generate
// ./cmd/agentd.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"agentd/cmd/agentd/check"
	"agentd/cmd/agentd/console"
	"agentd/cmd/agentd/demo"
	"agentd/cmd/agentd/export"
	"agentd/cmd/agentd/makemodel"
	"agentd/cmd/agentd/serve"
	"agentd/internal/options"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "optionsdoc: want the file to write, such as docs/options.md")
		os.Exit(1)
	}
	var page bytes.Buffer
	write(&page)
	if err := os.WriteFile(os.Args[1], page.Bytes(), 0o644); err != nil { //nolint:gosec // a document is for everybody
		fmt.Fprintf(os.Stderr, "optionsdoc: %v\n", err)
		os.Exit(1)
	}
}

const intro = "# Options\n\n<!-- Written by `make generate` from the options of cmd/agentd. -->\n\n" +
	"`agentd --help` and `agentd COMMAND --help` print the same. A value of the server comes from its default, the configuration file, " +
	"an environment variable or the command line. Each of these wins over the one before.\n\n" +
	"| Where | Name of `--max-new-tokens 512` |\n|---|---|\n" +
	"| command line | `--max-new-tokens 512` or `--max-new-tokens=512` |\n" +
	"| environment | `AGENTD_MAX_NEW_TOKENS=512` |\n" +
	"| file of `--config` (JSON) | `{\"max_new_tokens\": 512}` |\n\n" +
	"The file may gather the options of the first four groups in an object `model`. There `model` is `path` and `model_format` is `format`. " +
	"Commands other than the server have flags only.\n"

// write prints the page.
func write(w io.Writer) {
	fmt.Fprint(w, intro)
	section := func(title string, command *options.Command) {
		fmt.Fprintf(w, "\n## %s\n", title)
		command.WriteMarkdown(w, 3)
	}
	section("The server: `agentd`", serve.DefaultConfig().Command())

	page := console.DefaultConfig()
	page.DataDir = "~/.local/share/agentd/console" // the machine's own depends on its user
	section("`agentd console`", page.Command())
	section("`agentd demo`", demo.DefaultConfig().Command())
	section("`agentd check`", check.DefaultConfig().Command())
	section("`agentd export`", export.DefaultConfig().Command())
	section("`agentd make-model`", makemodel.DefaultConfig().Command())
}

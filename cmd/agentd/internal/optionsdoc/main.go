// Command optionsdoc writes docs/options.md and the schema of the Helm chart's values from the options of
// agentd: go generate ./cmd/agentd.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"agentd/cmd/agentd/internal/commands"
	"agentd/cmd/agentd/serve"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "optionsdoc: want the root of the repository")
		os.Exit(1)
	}
	for name, write := range documents {
		var page bytes.Buffer
		write(&page)
		path := filepath.Join(os.Args[1], name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, page.Bytes()) {
			continue // a test may be reading it
		}
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil { //nolint:gosec // a document is for everybody
			fmt.Fprintf(os.Stderr, "optionsdoc: %v\n", err)
			os.Exit(1)
		}
	}
}

// documents are what is written, by its path.
var documents = map[string]func(io.Writer){
	"docs/options.md":                       write,
	"deploy/helm/agentd/values.schema.json": writeSchema,
}

// schema is that of the chart's values, without the options of agentd.
//
//go:embed values.schema.json
var schema []byte

// writeSchema prints the schema of the chart's values. It refuses names that nothing reads, and options that the
// chart sets.
func writeSchema(w io.Writer) {
	var whole map[string]any
	err := json.Unmarshal(schema, &whole)
	if err == nil {
		whole["properties"].(map[string]any)["config"] = serve.DefaultConfig().Command().FileSchema("host", "port")
		var text []byte
		if text, err = json.MarshalIndent(whole, "", "  "); err == nil {
			_, err = fmt.Fprintf(w, "%s\n", text)
		}
	}
	if err != nil {
		panic(err) // the embedded file is JSON
	}
}

const intro = "# Options\n\n<!-- Written by `make generate` from the options of cmd/agentd. -->\n\n" +
	"`agentd --help` and `agentd COMMAND --help` print the same, with the default in brackets. An option of the server is set by " +
	"`--max-new-tokens 512`, by the variable `AGENTD_MAX_NEW_TOKENS=512`, or in the JSON file of `--config` by " +
	"`{\"max_new_tokens\": 512}`; the first of these wins. The file may gather the options of the first four groups in an object " +
	"`model`, where `model` is `path` and `model_format` is `format`. The other commands have flags only.\n"

// write prints the page.
func write(w io.Writer) {
	fmt.Fprint(w, intro)
	for _, c := range commands.Program().Commands {
		if c.Line == nil || len(c.Line.Options) == 0 {
			continue
		}
		title := "`" + c.Line.Name + "`"
		if c.Name == "serve" {
			title = "The server: " + title
		}
		fmt.Fprintf(w, "\n## %s\n", title)
		c.Line.WriteMarkdown(w, 3)
	}
}

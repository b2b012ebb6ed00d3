// Command optionsdoc writes docs/options.md and the schema of the Helm chart's values from the options of
// agentd: go generate ./cmd/agentd.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

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

// values are the top-level names of the chart's values.
var values = []string{
	"affinity", "autoscaling", "config", "image", "models", "nodeSelector", "podAnnotations", "podDisruptionBudget", "podLabels", "replicas", "resources",
	"runtimeClassName", "secrets", "service", "serviceAccount", "serviceMonitor", "startup", "terminationGracePeriodSeconds", "tolerations",
}

// writeSchema prints the schema of the chart's values. It refuses names that nothing reads.
func writeSchema(w io.Writer) {
	type object = map[string]any
	config, names := object{"model": object{}}, object{}
	for _, o := range serve.DefaultConfig().Command().Options {
		config[strings.ReplaceAll(o.Name, "-", "_")] = object{}
	}
	for _, name := range append(values, "global") { // global: Helm's own
		names[name] = object{}
	}
	names["config"] = object{"type": "object", "additionalProperties": false, "properties": config}
	text, err := json.MarshalIndent(object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Values of the agentd chart",
		"type": "object", "additionalProperties": false, "properties": names,
	}, "", "  ")
	if err != nil {
		panic(err) // texts, maps and a bool can be encoded
	}
	fmt.Fprintf(w, "%s\n", text)
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

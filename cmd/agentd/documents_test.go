package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/cmd/agentd/console"
	"agentd/cmd/agentd/demo"
	"agentd/cmd/agentd/eval"
	"agentd/cmd/agentd/makemodel"
	"agentd/cmd/agentd/serve"
	"agentd/internal/options"
	"agentd/internal/options/optionstest"
)

// repository is its root.
var repository = filepath.Join("..", "..")

func TestDocumentedOptionsExist(t *testing.T) {
	page, measurement := console.DefaultConfig(), eval.DefaultConfig()
	commands := map[string]*options.Command{
		"serve": serve.DefaultConfig().Command(), "console": page.Command(), "demo": demo.DefaultConfig().Command(),
		"eval": measurement.Command(), "make-model": makemodel.DefaultConfig().Command(),
	}
	uses := optionstest.Uses(t, repository, "agentd")
	if len(uses) < 20 {
		t.Fatalf("%d commands were found", len(uses))
	}
	for _, use := range uses {
		name := "serve"
		if len(use.Args) > 0 && !strings.HasPrefix(use.Args[0], "-") {
			name = use.Args[0]
		}
		if slices.Contains([]string{"version", "help", "COMMAND"}, name) {
			continue
		}
		command, ok := commands[name]
		if !ok {
			t.Errorf("%s: agentd has no command %s", use.File, name)
			continue
		}
		for _, flag := range use.Flags() {
			if flag != "help" && !slices.ContainsFunc(command.Options, func(o options.Option) bool { return o.Name == flag }) {
				t.Errorf("%s: agentd %s has no option --%s", use.File, name, flag)
			}
		}
	}
}

func TestDocumentedMakeTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z.-]*):.*##`).FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, m[1])
	}
	listed := map[string]bool{}
	for _, use := range optionstest.Uses(t, repository, "make") {
		for _, word := range use.Args {
			if strings.Contains(word, "=") {
				break // the rest is the value of a variable
			}
			if !slices.Contains(targets, word) {
				t.Errorf("%s: make has no target %s", use.File, word)
			}
			listed[word] = listed[word] || use.File == "CONTRIBUTING.md"
		}
	}
	for _, target := range targets {
		if !listed[target] {
			t.Errorf("CONTRIBUTING.md does not name make %s", target)
		}
	}
}

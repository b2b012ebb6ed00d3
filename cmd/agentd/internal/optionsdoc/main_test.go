package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var root = filepath.Join("..", "..", "..", "..")

func TestDocumentsAreCurrent(t *testing.T) {
	for name, write := range documents {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		write(&want)
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s differs from the options; make generate writes it again", name)
		}
	}
}

func TestSchemaHasEveryValueOfTheChart(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy", "helm", "agentd", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^(\w+):`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	var whole struct{ Properties map[string]any }
	if err := json.Unmarshal(schema, &whole); err != nil {
		t.Fatal(err)
	}
	delete(whole.Properties, "global") // Helm's own
	if known := slices.Sorted(maps.Keys(whole.Properties)); !slices.Equal(names, known) {
		t.Errorf("values.yaml has %q and the schema %q", names, known)
	}
}

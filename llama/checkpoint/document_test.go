package checkpoint

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const document = "../../docs/checkpoints.md"

// TestDocumentListsTheMembers, as the tables have them; -update writes them.
func TestDocumentListsTheMembers(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	const heading = "## Members\n"
	head, rest, ok := strings.Cut(string(text), heading)
	if !ok {
		t.Fatalf("%s has no heading Members", document)
	}
	var b strings.Builder
	tables := func(title string, m members) {
		fmt.Fprintf(&b, "\n**%s**\n\n| Word | Members |\n|---|---|\n", title)
		for word, names := range grouped(m) {
			fmt.Fprintf(&b, "| %s | `%s` |\n", word, strings.Join(names, "`, `"))
		}
	}
	tables("`config.json`, all classes", everyConfig)
	for _, class := range slices.Sorted(maps.Keys(architectures)) {
		if a := architectures[class]; !a.images {
			tables(class, a.members)
		}
	}
	tables("Qwen3_5ForConditionalGeneration, beside `text_config`", imagesOnly)
	for _, kind := range slices.Sorted(maps.Keys(ropeMembers)) {
		title := "`rope_parameters` and `rope_scaling`, all types"
		if kind != "" {
			title = "rope_type `" + kind + "`"
		}
		tables(title, ropeMembers[kind])
	}
	tables("`quantization_config`", quantizationMembers)
	tables("`generation_config.json`", generationMembers)
	tables("`tokenizer.json`", tokenizerMembers)
	tables("`model` of `tokenizer.json`", modelMembers)
	tables("`added_tokens`", addedMembers)
	tables("`pre_tokenizer` `Split`", splitMembers)
	tables("`pre_tokenizer` `ByteLevel`", byteLevel)
	tables("`pre_tokenizer` `Digits`", digitMembers)
	tables("`post_processor` `TemplateProcessing`", templating)
	tables("`post_processor` and `decoder` `ByteLevel`", byteLevelAfter)
	tables("`tokenizer_config.json`", tokenizerConfigMembers)
	tables("`adapter_config.json`", adapterMembers)
	want := head + heading + b.String()
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if rest != b.String() {
		t.Errorf("%s is not what the tables say; go test ./llama/checkpoint -run Document -update", document)
	}
}

// grouped has the names of members that mean the same, used ones first.
func grouped(m members) func(yield func(string, []string) bool) {
	groups := map[string][]string{}
	for name, k := range m {
		word := map[string]string{used: "1used", refused: "2refused", inert: "3" + inert}[k.word]
		if k.value != "" {
			word += " unless `" + k.value + "`"
		}
		if k.why != "" {
			word += ": " + k.why
		}
		groups[word] = append(groups[word], name)
	}
	return func(yield func(string, []string) bool) {
		for _, word := range slices.Sorted(maps.Keys(groups)) {
			slices.Sort(groups[word])
			if !yield(word[1:], groups[word]) {
				return
			}
		}
	}
}

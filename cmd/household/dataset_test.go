package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentd/protocol"
)

// TestTheHashPrintedIsThatOfTheFile for both splits.
func TestTheHashPrintedIsThatOfTheFile(t *testing.T) {
	for _, more := range [][]string{nil, {"--eval"}} {
		path := filepath.Join(t.TempDir(), "set.jsonl")
		var out strings.Builder
		if err := run(t.Context(), append([]string{"dataset", "--groups", "2", "--seed", "3", "--out", path}, more...), &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), path); out.String() != want {
			t.Errorf("%q is printed, not %q", out.String(), want)
		}
	}
}

// TestWithoutAFileNothingIsWritten: the command chooses no file itself.
func TestWithoutAFileNothingIsWritten(t *testing.T) {
	for _, args := range [][]string{{}, {"--out", "x", "--groups", "0"}, {"--out", "x", "more"}, {"--what"}} {
		if err := run(t.Context(), append([]string{"dataset"}, args...), io.Discard, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestHelpIsNoError(t *testing.T) {
	for _, command := range []string{"dataset", "choices"} {
		if err := run(t.Context(), []string{command, "--help"}, io.Discard, io.Discard); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// TestChoicesHoldTheRightOneAmongOthers in inputs that a server accepts.
func TestChoicesHoldTheRightOneAmongOthers(t *testing.T) {
	err := run(t.Context(), []string{"choices", "--tool-names", "new", "--out", filepath.Join(t.TempDir(), "x")}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "--tool-names") {
		t.Errorf("unknown names of tools: %v", err)
	}
	var files []string
	for range 2 {
		path := filepath.Join(t.TempDir(), "choices.jsonl")
		if err := run(t.Context(), []string{"choices", "--items", "40", "--seed", "3", "--out", path}, io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(text))
	}
	if files[0] != files[1] {
		t.Error("the same seed gives other choices")
	}
	lines, several := strings.Split(strings.TrimSpace(files[0]), "\n"), 0
	if len(lines) != 40 {
		t.Fatalf("%d lines, not 40", len(lines))
	}
	for i, line := range lines {
		raw, _ := protocol.Get(protocol.Raw(line), "input")
		request := fmt.Sprintf(`{"request_id": "a", "inputs": [%s]}`, raw)
		req, err := protocol.DecodeAgentRequest([]byte(request))
		if err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		list, _ := protocol.Get(req.Inputs[0].ExtraKeys, "options")
		seen := map[string]bool{}
		for e := range protocol.Elements(list) {
			d, err := protocol.DecodeAgentDecision(e)
			if err != nil {
				t.Fatalf("line %d: %v", i, err)
			}
			seen[string(d.AppendJSON(nil))] = true
		}
		right, _ := protocol.Get(protocol.Raw(line), "right")
		if n, err := strconv.Atoi(string(right)); err != nil || n < 0 || n >= len(seen) || len(seen) < 2 || len(seen) > mostChoices {
			t.Errorf("line %d: right is %s of %d options", i, right, len(seen))
		}
		if len(seen) > 5 {
			several++
		}
	}
	if several < 20 {
		t.Errorf("only %d of 40 inputs have more than 5 options", several)
	}
	for _, args := range [][]string{{}, {"--out", "x", "--items", "0"}, {"--out", "x", "more"}} {
		if err := run(t.Context(), append([]string{"choices"}, args...), io.Discard, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/defaultmodel/learn"
)

// fakeTrainer copies the model that it is to improve, and writes down its arguments.
func fakeTrainer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trainer")
	writeFile(t, path, `#!/bin/sh
set -eu
given="$*"
while [ $# -gt 0 ]; do
	case $1 in
	--model) model=$2 ;;
	--out) out=$2 ;;
	esac
	shift 2
done
echo "$given" >>"$out/arguments"
cp "$model" "$out/model.gguf.new"
mv "$out/model.gguf.new" "$out/model.gguf"
`)
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLearnCorrectsThroughTheServer: the default model works, the
// planner corrects it over HTTP, and weights that decide the same are not kept.
func TestLearnCorrectsThroughTheServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "night")
	people := filepath.Join(t.TempDir(), "people.jsonl")
	writeFile(t, people, "{}\n")
	args := []string{"learn", "--rounds", "1", "--houses", "1", "--held-out", "3", "--clients", "4",
		"--corrections", people, "--trainer", fakeTrainer(t), dir}
	var out bytes.Buffer
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if text := out.String(); !strings.Contains(text, "0 better, 0 worse, p 1.000: not kept") {
		t.Errorf("got\n%s", text)
	}
	at := func(name string) string { return filepath.Join(dir, "round-1", name) }
	exchanges, err := os.ReadFile(at("work/house-0000.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := bytes.Count(exchanges, []byte(`[{"outcome": "failure"}]`))
	if coached := bytes.Count(exchanges, []byte(`"coaching":{"kind":"replace_`)); coached != wrong {
		t.Errorf("%d of %d wrong decisions were corrected", coached, wrong)
	}
	chat, err := os.ReadFile(at("chat.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(chat, []byte("\n")); n < 8 || n != bytes.Count(exchanges, []byte("\n"))-wrong {
		t.Errorf("%d rows", n)
	}
	given, err := os.ReadFile(at("training/arguments"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"--rows " + people, "--rows " + at("chat.jsonl"), "--tokens " + at("rollouts.jsonl"), "--minutes 15"} {
		if !strings.Contains(string(given), part) {
			t.Errorf("the trainer was not given %s: %s", part, given)
		}
	}
	first, err := os.ReadFile(filepath.Join(dir, "best.gguf"))
	if err != nil || len(first) < 1<<20 {
		t.Errorf("best.gguf has %d bytes: %v", len(first), err)
	}

	// A second call finds everything done.
	out.Reset()
	if err := run(t.Context(), args, &out, io.Discard); err != nil || strings.Contains(out.String(), "measuring") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestSecondLearnInDirectoryEndsAtOnce(t *testing.T) {
	dir := t.TempDir()
	unlock, err := learn.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	err = run(t.Context(), []string{"learn", "--trainer", fakeTrainer(t), dir}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "already learns in "+dir) {
		t.Errorf("got %v", err)
	}
}

func TestLearnRefusesBadOptions(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		args []string
		part string
	}{
		{nil, "the directory is missing"},
		{[]string{"a", "b"}, "2 directories"},
		{[]string{"--rounds", "0", dir}, "--rounds"},
		{[]string{"--model", dir, dir}, "--model: " + dir + " is no file"},
		{[]string{"--corrections", filepath.Join(dir, "none"), dir}, "--corrections"},
		{[]string{"--python", "p", "--trainer", "t", dir}, "remove one"},
		{[]string{"--python", filepath.Join(dir, "none"), filepath.Join(dir, "new")}, "Install what it needs"},
	} {
		err := run(t.Context(), append([]string{"learn"}, test.args...), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.part) {
			t.Errorf("%v: got %v, want %q", test.args, err, test.part)
		}
	}
}

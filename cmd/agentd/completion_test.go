package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentd/cmd/agentd/internal/commands"
	"agentd/cmd/internal/options"
)

// lines are the command lines of agentd's commands, by name.
func lines() map[string]*options.Command {
	list := map[string]*options.Command{}
	for _, c := range commands.Program().Commands {
		if c.Line != nil {
			list[c.Name] = c.Line
		}
	}
	return list
}

// TestShellsComplete: what a user types before the tab, and the last word after it. Each shell that is here runs its own
// completion.
func TestShellsComplete(t *testing.T) {
	for shell, complete := range map[string]func(t *testing.T, dir, script, typed string) string{
		"bash": func(t *testing.T, dir, script, typed string) string {
			return onTerminal(t, dir, typed, "bash --norc --noprofile -i", script)
		},
		"zsh": func(t *testing.T, dir, script, typed string) string {
			return onTerminal(t, dir, typed, "zsh -f -i", "autoload -Uz compinit\ncompinit -D -u\n"+script)
		},
		"fish": func(t *testing.T, dir, script, typed string) string {
			cmd := exec.CommandContext(t.Context(), "fish", "--no-config", "-c", script+"\ncomplete -C $argv", typed)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			word, _, _ := strings.Cut(string(out), "\t") // its description follows
			return typed[:strings.LastIndex(typed, " ")+1] + strings.TrimSpace(word)
		},
	} {
		var script bytes.Buffer
		if err := run(t.Context(), []string{"completion", shell}, &script, io.Discard); err != nil {
			t.Fatal(err)
		}
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s was not tested: %v", shell, err)
			continue
		}
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "weights.gguf"), "")
		for typed, want := range map[string]string{
			"agentd dem":                 "demo",
			"agentd --max-new":           "--max-new-tokens",
			"agentd serve --drain":       "--drain-timeout",
			"agentd demo --ta":           "--tasks",
			"agentd --log-level de":      "debug",
			"agentd check --level=sh":    "--level=should",
			"agentd completion z":        "zsh",
			"agentd --model we":          "weights.gguf",
			"agentd make-model --out we": "weights.gguf",
		} {
			if got := complete(t, dir, script.String(), typed); got != typed[:strings.LastIndex(typed, " ")+1]+want {
				t.Errorf("%s completes %q to %q", shell, typed, got)
			}
		}
	}
}

// onTerminal types into a shell, presses tab and returns the line that the shell then runs.
func onTerminal(t *testing.T, dir, typed, shell, script string) string {
	t.Helper()
	start := filepath.Join(dir, "start")
	writeFile(t, start, script+"\nagentd() { echo \"RAN agentd $*\"; exit; }\n")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "script", "--quiet", "--command", shell, filepath.Join(dir, "typescript"))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "TERM=dumb", "PS1=> ")
	cmd.Stdin = strings.NewReader(". ./start\n" + typed + "\t\n")
	out, err := cmd.CombinedOutput()
	_, ran, found := strings.Cut(string(out), "\nRAN ")
	if !found {
		t.Fatalf("%v: %q", err, out)
	}
	ran, _, _ = strings.Cut(ran, "\n")
	return strings.TrimSpace(ran)
}

func TestCompletionRefusesOtherShells(t *testing.T) {
	for args, want := range map[string]string{"completion": "bash, zsh or fish", "completion csh": `"csh"`, "completion bash zsh": "name one shell"} {
		if err := run(t.Context(), strings.Fields(args), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestManPageHasEveryOption, and groff formats it without a warning.
func TestManPageHasEveryOption(t *testing.T) {
	var page bytes.Buffer
	if err := run(t.Context(), []string{"man"}, &page, io.Discard); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if _, err := exec.LookPath("groff"); err == nil {
		cmd := exec.CommandContext(t.Context(), "groff", "-man", "-Tascii", "-ww", "-P-cbou")
		var warnings bytes.Buffer
		cmd.Stdin, cmd.Stderr = &page, &warnings
		out, err := cmd.Output()
		if err != nil || warnings.Len() > 0 {
			t.Fatalf("groff: %v\n%s", err, &warnings)
		}
		text = string(out)
	}
	for name, line := range lines() {
		for _, o := range line.Options {
			if flag := strings.TrimSpace("--" + o.Name + " " + o.Arg); o.Group != "" && !strings.Contains(text, flag) {
				t.Errorf("the page lacks %s of %s", flag, name)
			}
		}
	}
}

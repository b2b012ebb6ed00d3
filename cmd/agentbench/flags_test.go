package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"agentd/cmd/internal/options"
)

func TestInvalidOptionsNameTheFlagAndTheFix(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there.json")
	empty := filepath.Join(dir, "empty.txt")
	for path, text := range map[string]string{there: "{}", empty: " \n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const url = "--url=http://127.0.0.1:1"
	for _, c := range []struct{ args, want string }{
		{"", "a command is missing; want run, compare"},
		{"serve", `unknown command "serve"; want run`},
		{"run --fastest 1", "option --fastest is unknown; agentbench run --help lists the options"},
		{"run " + url + " more", `unexpected argument "more"`},
		{"run", "--url: is missing"},
		{"run --url 127.0.0.1:8888", "--url: "},
		{"run --url http://a:b@host", "use --token-file"},
		{"run " + url + " --target sglang", `--target: got "sglang", want one of agentd, llama-server, vllm`},
		{"run " + url + " --target vllm", "--fixed-tokens: is missing; --target vllm"},
		{"run " + url + " --target vllm --fixed-tokens 8", "--model: is missing; vllm gets agentd's tokens"},
		{"run " + url + " --fixed-tokens 0", `--fixed-tokens: got "0", want a whole number from 1`},
		{"run " + url + " --fixed-tokens 8 --max-tokens 9", "--max-tokens: --fixed-tokens sets the length"},
		{"run " + url + " --rate x", `--rate: got "x", want a number from 0`},
		{"run " + url + " --seed -1", `--seed: got "-1"`},
		{"run " + url + " --greedy=maybe", `--greedy: got "maybe", want true or false`},
		{"run " + url + " --slo 5", `--slo: got "5", want a time span`},
		{"run " + url + " --out " + there, "exists; remove it or name another file"},
		{"run " + url + " --out " + filepath.Join(dir, "no", "r.json"), "--out: " + filepath.Join(dir, "no") + " is not a directory; create it"},
		{"run " + url + " --token-file " + empty, "has no token"},
		{"run " + url + " --agents 0", `--agents: got "0", want a whole number from 1`},
		{"run " + url + " --model " + filepath.Join(dir, "missing.gguf"), "--model: "},
		{"run " + url + " --target llama-server", "--model: is missing; llama-server gets agentd's tokens"},
		{"run " + url, "the server does not describe itself"},
		{"compare", "no result is named"},
		{"compare " + there, there + " is not a result"},
		{"compare " + filepath.Join(dir, "missing.json"), "missing.json"},
		{"suite --loads house", `there is no load "house"; use all, or some of: household, tiny, 0.1b, 0.6b, moe, moe-mxfp4, calls`},
		{"suite --loads=", `there is no load ""; use all`},
		{"suite --repeats 0", `--repeats: got "0", want a whole number from 1`},
		{"suite --peers sglang", `--peers: got "sglang", want one of llama-server, vllm`},
		{"suite --agentd " + filepath.Join(dir, "no"), filepath.Join(dir, "no") + " is missing; make agentd builds it"},
		{"suite --agentd " + there + " --bin " + dir, filepath.Join(dir, "llama-server") + " is missing; make peers builds it"},
	} {
		out, err := bench(t.Context(), strings.Fields(c.args)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q\n%s", c.args, err, c.want, out)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v left in the directory, %v", entries, err)
	}
}

func TestHelpPagesFitATerminal(t *testing.T) {
	c := newMeasureConfig()
	pages := map[string][]options.Option{"": nil, "run": c.command().Options, "compare": nil, "suite": nil}
	for name, opts := range pages {
		args := []string{"--help"}
		if name != "" {
			args = []string{name, "--help"}
		}
		page := mustBench(t, args...)
		for line := range strings.Lines(page) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		for _, o := range opts {
			if !strings.Contains(page, "--"+o.Name) {
				t.Errorf("%s: the page has no --%s", name, o.Name)
			}
		}
		if !strings.Contains(page, "Usage") {
			t.Errorf("%s: no usage", name)
		}
	}
	if out := mustBench(t, "version"); !strings.HasPrefix(out, "agentbench ") {
		t.Errorf("version prints %q", out)
	}
}

func TestCPUNameFallsBackToTheArchitecture(t *testing.T) {
	if got := cpuName(strings.NewReader("processor\t: 0\nmodel name\t: Some  CPU @ 2GHz\n")); got != "Some CPU @ 2GHz" {
		t.Errorf("got %q", got)
	}
	if got := cpuName(strings.NewReader("processor\t: 0\n")); got == "" {
		t.Error("no name at all")
	}
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// installPatience is how long a package index may take; only failures take it.
const installPatience = 5 * time.Minute

// python is a Python and what it shall import beside its own library.
type python struct {
	path     string
	packages []string // folders
}

// command runs a program of that Python.
func (p python) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), p.path, append([]string{"-B"}, args...)...)
	c.Env = append(os.Environ(), "PYTHONPATH="+strings.Join(p.packages, string(filepath.ListSeparator)))
	return c
}

// with is the Python with a package of this repository as pip installs it, and
// built by what requirements had for that.
func (p python) with(t *testing.T, source string) python {
	t.Helper()
	target := t.TempDir()
	out, err := p.command(t, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps",
		"--no-build-isolation", "--no-index", "--ignore-requires-python", "--target", target, source).CombinedOutput()
	if err != nil {
		t.Fatalf("%s cannot be installed: %v\n%s", source, err, out)
	}
	return python{p.path, append([]string{target}, p.packages...)}
}

// installedPython is a Python with packages, all that are needed, in agentd's cache,
// where they are installed the first time. A test is skipped on machines without
// Python 3.12, or where no package index can be reached.
func installedPython(t *testing.T, requirements []string) python {
	t.Helper()
	path, tag := newPython(t)
	if path == "" {
		t.Skip("no Python 3.12 or newer with pip; set PYENV_ROOT or PATH to one")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	parent := filepath.Join(cache, "agentd", "python")
	packages := filepath.Join(parent, fmt.Sprintf("%.4x-%s", sha256.Sum256([]byte(strings.Join(requirements, " "))), tag))
	if _, err := os.Stat(packages); err == nil {
		return python{path, []string{packages}}
	}
	if err := os.MkdirAll(parent, 0o750); err != nil {
		t.Fatal(err)
	}
	stage, err := os.MkdirTemp(parent, "stage-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(stage)
	ctx, cancel := context.WithTimeout(t.Context(), installPatience)
	defer cancel()
	// MAGMA's packages name Python 3.12 alone, since PyTorch and the simulator do; what is used of them here runs with newer ones.
	args := append([]string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps",
		"--ignore-requires-python", "--only-binary", ":all:", "--target", filepath.Join(stage, "packages")}, requirements...)
	if out, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		t.Skipf("%s cannot be installed: %v\n%s", strings.Join(requirements, " "), err, bytes.TrimSpace(out))
	}
	// Whole or not at all; another test process may have been faster.
	if err := os.Rename(filepath.Join(stage, "packages"), packages); err != nil {
		if _, there := os.Stat(packages); there != nil {
			t.Fatal(err)
		}
	}
	return python{path, []string{packages}}
}

// newPython finds a Python of 3.12 or newer with pip, and a name for the packages
// that it can load.
func newPython(t *testing.T) (path, name string) {
	t.Helper()
	const question = `import sys, sysconfig, pip; print(sys.version_info >= (3, 12), sys.implementation.cache_tag + "-" + sysconfig.get_platform())`
	candidates := []string{"python3", "python3.14", "python3.13", "python3.12"}
	if home, err := os.UserHomeDir(); err == nil {
		more, err := filepath.Glob(filepath.Join(cmp.Or(os.Getenv("PYENV_ROOT"), filepath.Join(home, ".pyenv")), "versions", "3.*", "bin", "python3"))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(more)
		candidates = append(candidates, more...)
	}
	for _, candidate := range candidates {
		out, err := exec.CommandContext(t.Context(), candidate, "-c", question).Output()
		var enough, tag string
		if err != nil {
			continue // not there, or without pip
		}
		if _, err := fmt.Sscan(string(out), &enough, &tag); err == nil && enough == "True" {
			return candidate, tag
		}
	}
	return "", ""
}

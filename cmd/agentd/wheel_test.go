package main

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"agentd/internal/base/version"
)

// releasedTree is a release's tree without its binary and libraries, in a folder as `make dist` leaves it. source is
// the URL to which documents lead for what the tree lacks.
func releasedTree(t *testing.T, source string) (dist, tree string) {
	t.Helper()
	dist = t.TempDir()
	name := "agentd-" + version.Release + "-linux-" + runtime.GOARCH
	tree = filepath.Join(dist, name)
	for path, text := range map[string]string{
		"agentd": "#!/bin/sh\n", "LICENSE": "MIT", "LICENSES/go/std/LICENSE": "BSD", "README.md": "[docs](docs/README.md)\n",
		"lib/BUILD": "glibc     2.34\n", "share/man/man1/agentd.1": ".TH agentd 1\n",
		"sbom.cdx.json": `{"metadata": {"component": {"licenses": [{"license": {"id": "MIT"}}]}}, "components": [{"licenses": [{"expression": "BSD-3-Clause OR MIT"}]}]}`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, path)), 0o750); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(tree, path), text)
	}
	if err := os.Symlink(name, filepath.Join(dist, "agentd")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dist, "SHA256SUMS"), "")
	python3(t, "documents.py", tree, source)
	return dist, tree
}

// python3 runs a program of third_party.
func python3(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", append([]string{"-B", filepath.Join(repository, "third_party", program)}, args...)...)
	cmd.Env = append(os.Environ(), "REPOSITORY=https://example.org/agentd", "SOURCE_DATE_EPOCH=1800000000")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// madeWheel is a wheel of a releasedTree.
func madeWheel(t *testing.T) string {
	t.Helper()
	dist, _ := releasedTree(t, "")
	python3(t, "wheel.py", dist)
	wheels, err := filepath.Glob(filepath.Join(dist, "*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("%q, %v", wheels, err)
	}
	checkRecord(t, wheels[0])
	return wheels[0]
}

// TestReleasesHaveNoDeadLinks in their documents, where these may lead to the source and where not.
func TestReleasesHaveNoDeadLinks(t *testing.T) {
	for _, source := range []string{"", "https://example.org/agentd/blob/v1"} {
		_, tree := releasedTree(t, source)
		links, away := 0, 0
		err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			for _, target := range linksOf(t, path) {
				links++
				if file, found := strings.CutPrefix(target, source+"/"); found && source != "" {
					away++
					expectTarget(t, path, repository, file)
				} else if !strings.Contains(target, "://") {
					expectTarget(t, path, filepath.Dir(path), target)
				}
			}
			return nil
		})
		if err != nil || links < 120 || (away > 20) != (source != "") {
			t.Errorf("%d links, %d of them to %q: %v", links, away, source, err)
		}
	}
}

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	linkTo   = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unlinked = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func linksOf(t *testing.T, path string) (targets []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range linkTo.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		targets = append(targets, found[1])
	}
	return targets
}

// expectTarget checks that a link's file is there, and its heading.
func expectTarget(t *testing.T, document, folder, target string) {
	t.Helper()
	file, anchor, _ := strings.Cut(target, "#")
	path := filepath.Join(folder, file)
	if file == "" {
		path = document
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("%s has a dead link: %s", document, target)
		return
	}
	if anchor == "" {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var anchors []string
	for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		anchors = append(anchors, strings.ReplaceAll(strings.ToLower(unlinked.ReplaceAllString(found[1], "")), " ", "-"))
	}
	if !slices.Contains(anchors, anchor) {
		t.Errorf("%s has a link to no heading: %s", document, target)
	}
}

// TestWheelDescribesItself: what an index shows and pip reads.
func TestWheelDescribesItself(t *testing.T) {
	p := installedPython(t, clientPackages).with(t, madeWheel(t))
	const program = `
import importlib.metadata, inspect, pathlib, agentd_client
m = importlib.metadata.metadata("agentd-server")
print(m["Name"], m["License-Expression"], m.get_all("License-File"), m.get_all("Requires-Dist"), m.get_all("Provides-Extra"))
print(m.get_all("Project-URL"))
print([c for c in m.get_all("Classifier") if "Typed" in c or "Linux" in c])
print(m.get_payload() or m["Description"])
for client in agentd_client.Client, agentd_client.AsyncClient:
    print({name: str(p.annotation) for name, p in inspect.signature(client).parameters.items() if name in ("token", "timeout")})
print((pathlib.Path(agentd_client.__file__).parent / "py.typed").exists(), agentd_client.__version__)
`
	told, err := p.command(t, "-c", program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, told)
	}
	for _, want := range []string{
		"agentd-server (BSD-3-Clause OR MIT) AND MIT ['LICENSE', 'LICENSES/go/std/LICENSE'] ['httpx>=0.27,<1', ",
		"'Source, https://example.org/agentd', 'Documentation, https://example.org/agentd/blob/v" + version.Release + "/docs/README.md'",
		"'Operating System :: POSIX :: Linux', 'Typing :: Typed'", "pip install agentd-server", "## Sixteen simulators, one request",
		"(https://example.org/agentd/blob/v" + version.Release + "/docs/coaching.md)",
		"{'token': 'str | None', 'timeout': 'float | None'}\n{'token': 'str | None', 'timeout': 'float | None'}", "True " + version.Release,
	} {
		if !strings.Contains(string(told), want) {
			t.Errorf("no %q in\n%s", want, told)
		}
	}
	for _, link := range linkTo.FindAllStringSubmatch(string(told), -1) {
		if u, err := url.Parse(link[1]); err != nil || !u.IsAbs() {
			t.Errorf("the description has the link %s", link[1])
		}
	}
}

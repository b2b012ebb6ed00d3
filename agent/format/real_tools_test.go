//go:build !race

package format_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/agent/tools"
	"agentd/protocol"
)

// TestRealToolsAreUsable reads files of tools, one JSON value a line: a tool, or an object with tools under function.
// AGENTD_TOOLS has their pattern; else it is the benchmark BFCL where the cache has it (make quality).
func TestRealToolsAreUsable(t *testing.T) {
	pattern := os.Getenv("AGENTD_TOOLS")
	if pattern == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip(err)
		}
		pattern = filepath.Join(cache, "agentd", "quality-*", "lib", "python*", "site-packages", "bfcl_eval", "data", "*.json")
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("no file is called ", pattern)
	}
	f, _ := setupOf("hermes").open(t)
	seen, usable := map[string]bool{}, 0
	for _, file := range files {
		for _, raw := range toolsIn(t, file) {
			if seen[string(raw)] {
				continue
			}
			seen[string(raw)] = true
			set, err := tools.Normalise([]protocol.Raw{raw}, []string{"a", "b"}, "robot")
			if err == nil {
				_, err = f.Catalog(set).Grammar()
			}
			switch {
			case err == nil:
				usable++
			case strings.Contains(err.Error(), "no value fits"): // the tool contradicts itself
				t.Logf("%s: %v", filepath.Base(file), err)
			default:
				t.Errorf("%s: %v in %.500s", filepath.Base(file), err, raw)
			}
		}
	}
	t.Logf("%d of %d tools are usable", usable, len(seen))
}

func toolsIn(t *testing.T, file string) (list []protocol.Raw) {
	t.Helper()
	text, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		raw := protocol.Raw(lines.Text())
		if err := raw.Compact(); err != nil {
			continue // a file in another form
		}
		functions, has := protocol.Get(raw, "function")
		switch {
		case functions.Kind() == '[':
			for tool := range protocol.Elements(functions) {
				list = append(list, tool)
			}
		case has:
			list = append(list, functions)
		case isTool(raw):
			list = append(list, raw)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func isTool(raw protocol.Raw) bool {
	_, named := protocol.Get(raw, "name")
	_, described := protocol.Get(raw, "description")
	return named && described
}

package optionstest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUsesAreFoundInBlocksAndSpans(t *testing.T) {
	const text = "Run `./p one --a=1 --b`, not `q --c` or p --d.\n\n```sh\nmake x && X=1 p --e 2   # --f\np --g \\\n  --h | q --i\n```\n"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"a", "b"}, {"e"}, {"g", "h"}}
	var got [][]string
	for _, u := range Uses(t, dir, "p") {
		got = append(got, u.Flags())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

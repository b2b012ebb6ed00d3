package learn

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecondRunInDirectoryNamesTheFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "night")
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("process %d already learns in %s", os.Getpid(), dir)
	if _, err := Lock(dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	other, err := Lock(dir + "2")
	if err != nil {
		t.Fatal(err)
	}
	other()
	unlock()
	again, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

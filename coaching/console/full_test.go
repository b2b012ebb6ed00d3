package console

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
)

// descriptorOf is this process's descriptor of an open file.
func descriptorOf(t *testing.T, path string) int {
	t.Helper()
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range open {
		if target, err := os.Readlink(link); err == nil && target == path {
			fd, err := strconv.Atoi(filepath.Base(link))
			if err != nil {
				t.Fatal(err)
			}
			return fd
		}
	}
	t.Fatalf("no descriptor of %s", path)
	return 0
}

// TestFullDiskIsAnswered503 writes to /dev/full, which has no space left.
func TestFullDiskIsAnswered503(t *testing.T) {
	var log bytes.Buffer
	f := open(t, func(o *Options) { o.Log = zerolog.New(zerolog.SyncWriter(&log)) })
	f.post(ours("r1"))
	key := f.claimed("1", "Ann")
	for _, size := range []int{1 << 18, 1} { // leaves free pages, so nothing below maps or grows the file
		f.want(http.StatusNoContent, http.MethodPut, "/api/tasks/1/draft", object{"claim": key, "draft": object{"say": strings.Repeat("a", size)}}, nil)
	}
	f.want(http.StatusNoContent, http.MethodPost, "/api/tasks/1/release", object{"claim": key}, nil)
	fd := descriptorOf(t, f.path)
	kept, err := syscall.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(by int) {
		if err := syscall.Dup3(by, fd, syscall.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	replace(int(full.Fd()))
	claim := map[string]any{"person": "Ann"}
	r := f.call(http.MethodPost, "/api/tasks/1/claim", claim)
	if r.status != http.StatusServiceUnavailable || !strings.Contains(r.detail(), "disk of the console is full") || r.header.Get("Retry-After") == "" {
		t.Errorf("a claim: %d %s, Retry-After %q", r.status, r.body, r.header.Get("Retry-After"))
	}
	if r := f.call(http.MethodPost, "/v1/coaching/requests", ours("r2")); r.status != http.StatusServiceUnavailable || !strings.Contains(r.detail(), "disk of the console is full") {
		t.Errorf("a task: %d %s", r.status, r.body)
	}
	replace(kept)
	if err := errors.Join(full.Close(), syscall.Close(kept)); err != nil {
		t.Fatal(err)
	}
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/claim", claim, nil)
	if list := f.tasks("open"); len(list) != 1 {
		t.Errorf("afterwards there are %d tasks, want 1", len(list))
	}
	f.stop()
	if !strings.Contains(log.String(), "no space left on device") {
		t.Errorf("the log lacks the cause:\n%s", log.String())
	}
}

func TestFileThatCannotBeWrittenIs503(t *testing.T) {
	for cause, want := range map[error]string{
		&fs.PathError{Op: "write", Path: "console.db", Err: syscall.ENOSPC}: "is full",
		fmt.Errorf("grow: %w", syscall.EDQUOT):                              "is full",
		syscall.EIO:                                                         "cannot be written",
		fs.ErrClosed:                                                        "cannot be written",
	} {
		f := asFailure(unwritten(cause))
		if f.Status != http.StatusServiceUnavailable || f.RetryAfter == 0 || !strings.Contains(f.Detail, want) || !errors.Is(f, cause) {
			t.Errorf("%v: %d %q", cause, f.Status, f.Detail)
		}
	}
}

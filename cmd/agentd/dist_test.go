package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/internal/version"
)

// archiveVariable names the archive that `make dist` made; `make dist-test` sets it.
const archiveVariable = "AGENTD_DIST"

// TestDistRunsElsewhere: what is unpacked in a new directory answers the README's
// request, with nothing of this machine but its C library.
func TestDistRunsElsewhere(t *testing.T) {
	archive := os.Getenv(archiveVariable)
	if archive == "" {
		t.Skip(archiveVariable + " names no archive; `make dist dist-test` makes one and runs this")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
	if want := "agentd-" + version.Release + "-"; !strings.HasPrefix(name, want) {
		t.Errorf("the archive is %s, want %s…", name, want)
	}
	program := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name, "agentd"), args...)
		cmd.Dir, cmd.Env = t.TempDir(), []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
		return cmd
	}
	out, err := program("version").Output()
	if err != nil || !strings.HasPrefix(string(out), "agentd "+version.Release+" (commit ") {
		t.Errorf("agentd version says %q, %v", out, err)
	}

	cmd := program("--port", "0", "--log-format", "json", "--context-length", "8192", "--device", "cpu")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	var log strings.Builder
	var url string
	for lines.Scan() {
		log.WriteString(lines.Text() + "\n")
		var line struct{ Message, URL string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "listening" {
			url = line.URL
		}
		if line.Message == "ready" {
			break
		}
	}
	if url == "" {
		t.Fatalf("it does not listen: %s", log.String())
	}
	// Of the libraries that the process has mapped, all but the C library's come from the tree.
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		path := fields[len(fields)-1]
		if strings.Contains(path, ".so") && !strings.HasPrefix(path, dir) && !cLibrary(path) {
			t.Errorf("it loaded %s", path)
		}
	}
	path, request, promised := readmeExample(t)
	status, answer, err := exchange("POST", url+path, request)
	if err != nil || status != 200 {
		t.Fatalf("got %d %s, %v", status, answer, err)
	}
	expectShown(t, promised, answer)

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		log.WriteString(lines.Text() + "\n")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, log.String())
	}
}

// cLibrary tells the libraries that a release takes from the system.
func cLibrary(path string) bool {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	switch name {
	case "libc", "libm", "libdl", "libpthread", "librt", "libresolv":
		return true
	}
	return strings.HasPrefix(name, "ld-linux")
}

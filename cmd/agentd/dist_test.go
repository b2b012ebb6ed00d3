package main

import (
	"archive/zip"
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"agentd/internal/base/version"
)

// archiveVariable names the archive that `make dist` made; `make dist-test` sets it.
const archiveVariable = "AGENTD_DIST"

// TestDistRunsElsewhere: what is unpacked in a new directory answers the README's
// request, with nothing of this machine but its C library.
func TestDistRunsElsewhere(t *testing.T) {
	archive, dir := distTree(t)+".tar.gz", t.TempDir()
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

// TestDistIsWhole: the archive's README has the root README's request, and each file it links to is there.
func TestDistIsWhole(t *testing.T) {
	tree := distTree(t)
	readme, err := os.ReadFile(filepath.Join(tree, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, request, _ := readmeExample(t)
	unindented := strings.ReplaceAll(string(readme), "\n    ", "\n")
	if !strings.Contains(unindented, request) || !strings.Contains(string(readme), "    ./agentd demo\n") {
		t.Errorf("README.md lacks the first request or the demo: %s", readme)
	}
	for _, name := range []string{"LICENSE", "LICENSES", "agentd.service", "docs/options.md", "docs/protocol.md", "sbom.cdx.json", "lib/BUILD", "share/man/man1/agentd.1"} {
		if _, err := os.Stat(filepath.Join(tree, name)); err != nil {
			t.Error(err)
		}
	}
}

// distTree is the tree that the archive was made of.
func distTree(t *testing.T) string {
	t.Helper()
	archive := os.Getenv(archiveVariable)
	if archive == "" {
		t.Skip(archiveVariable + " names no archive; `make dist dist-test` makes one and runs this")
	}
	return strings.TrimSuffix(archive, ".tar.gz")
}

// TestWheelInstallsCommand: pip puts agentd on PATH in an empty environment, and the demo runs there.
func TestWheelInstallsCommand(t *testing.T) {
	wheels, err := filepath.Glob(filepath.Join(filepath.Dir(distTree(t)), "agentd_server-"+version.Release+"-*.whl"))
	if err != nil || len(wheels) == 0 {
		t.Skip("there is no wheel; `make wheel dist-test` makes one and runs this")
	}
	checkRecord(t, wheels[0])
	venv := filepath.Join(t.TempDir(), "venv")
	for _, command := range [][]string{
		{"python3", "-m", "venv", venv},
		{filepath.Join(venv, "bin", "pip"), "install", "--no-index", "--no-deps", "--disable-pip-version-check", wheels[0]},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	for _, name := range []string{"man/man1/agentd.1", "bash-completion/completions/agentd", "zsh/site-functions/_agentd", "fish/vendor_completions.d/agentd.fish"} {
		if info, err := os.Stat(filepath.Join(venv, "share", name)); err != nil || info.Size() == 0 {
			t.Errorf("pip did not install %s: %v", name, err)
		}
	}
	for args, want := range map[string]string{"--version": "agentd " + version.Release, "demo --tasks 1": "Tasks done: 1 of 1."} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(venv, "bin", "agentd"), strings.Fields(args)...)
		cmd.Dir, cmd.Env = t.TempDir(), []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("agentd %s says %s, %v; want %q in it", args, out, err, want)
		}
	}
}

// checkRecord checks that a wheel's RECORD has the size and SHA-256 of each file but itself, and no other.
func checkRecord(t *testing.T, wheel string) {
	t.Helper()
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	info := "agentd_server-" + version.Release + ".dist-info/RECORD"
	record, err := archive.Open(info)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(record).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{}
	for _, file := range archive.File {
		row := []string{file.Name, "", ""}
		if file.Name != info {
			data, err := fs.ReadFile(archive, file.Name)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(data)
			row[1], row[2] = "sha256="+base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(len(data))
		}
		want = append(want, row)
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("RECORD is %v, want %v", rows, want)
	}
}

// cLibrary reports whether a release takes a library from the system.
func cLibrary(path string) bool {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	switch name {
	case "libc", "libm", "libdl", "libpthread", "librt", "libresolv", "libgcc_s":
		return true
	}
	return strings.HasPrefix(name, "ld-linux")
}

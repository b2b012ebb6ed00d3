package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// memoryLimit is the memory of the server in TestHostileClientsTogetherStayBelowTheMemoryLimit.
const memoryLimit = 1 << 30

// group makes a memory cgroup with the limit, of either version. ok is false where this process may not.
func group(t *testing.T) (dir string, ok bool) {
	t.Helper()
	for _, kind := range []struct{ parent, limit string }{
		{"/sys/fs/cgroup", "memory.max"}, {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		if _, err := os.Stat(filepath.Join(kind.parent, "cgroup.procs")); err != nil {
			continue // no cgroups are mounted there
		}
		dir := filepath.Join(kind.parent, fmt.Sprintf("agentd-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			for range 100 { // until the kernel has noticed the end of its last process
				if os.Remove(dir) == nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Error("the cgroup is left")
		})
		// Not an error of the test: the controller may belong to somebody else.
		if os.WriteFile(filepath.Join(dir, kind.limit), []byte(strconv.Itoa(memoryLimit)), 0o600) == nil {
			return dir, true
		}
	}
	return "", false
}

// limited runs the program, without a race detector that takes memory of its own, in a cgroup. Where
// there is none, GOMEMLIMIT stands for it.
func limited(t *testing.T, args ...string) (r *running, pid int) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "agentd")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "agentd/cmd/agentd").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	args = append([]string{program, "--port", "0", "--log-format", "json", "--threads", "1"}, args...)
	env := append(os.Environ(), "GOGC=") // the default, also where tests have another one
	if dir, ok := group(t); ok {
		args = append([]string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, dir}, args...)
	} else {
		t.Log("no cgroup can be made here; GOMEMLIMIT stands for one")
		env = append(env, fmt.Sprintf("GOMEMLIMIT=%d", memoryLimit/2))
	}
	started := make(chan int, 1)
	r = start(t, func(ctx context.Context, stderr io.Writer) error {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env, cmd.Stderr = env, stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		started <- cmd.Process.Pid
		return cmd.Wait()
	})
	r.health("ready")
	return r, wait(t, "the process", started)
}

// peak is the most memory that a process has had, in bytes.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	kib, err := strconv.Atoi(string(regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(status)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

func TestHostileClientsTogetherStayBelowTheMemoryLimit(t *testing.T) {
	t.Parallel()
	r, pid := limited(t, "--context-length", "2048")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 63 {
		if _, err := z.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}

	var clients sync.WaitGroup
	// Bodies that are 62 KiB on the wire and 63 MiB in memory.
	for range 32 {
		clients.Go(func() {
			status, header, answer, err := exchangeHeader("POST", r.url+"/v1/responses", packed.String(), http.Header{"Content-Encoding": {"gzip"}})
			switch {
			case err != nil:
				t.Errorf("a body: %v", err)
			case status == http.StatusServiceUnavailable, status == http.StatusRequestEntityTooLarge:
				if header.Get("Retry-After") == "" {
					t.Errorf("a body: %d without Retry-After", status)
				}
			case status != http.StatusUnprocessableEntity: // it is white space only
				t.Errorf("a body: %d %.200s", status, answer)
			}
		})
	}
	// Clients that ask for 500 MiB and read nothing.
	request := body(t, "r", user(1, "go").memory(`{"map":"`+strings.Repeat("x", 2<<20)+`"}`).outputs(250).greedy())
	for range 16 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := errors.Join(conn.(*net.TCPConn).SetReadBuffer(4096), conn.SetDeadline(time.Now().Add(patience))); err != nil {
			t.Fatal(err)
		}
		clients.Go(func() {
			_, err := fmt.Fprintf(conn, "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(request), request)
			head := make([]byte, len("HTTP/1.1 200"))
			if _, unread := io.ReadFull(conn, head); err != nil || unread != nil {
				t.Errorf("a reader: %v, %v", err, unread)
			}
			if got := string(head); !strings.HasSuffix(got, "200") && !strings.HasSuffix(got, "503") && !strings.HasSuffix(got, "413") {
				t.Errorf("a reader got %q", got)
			}
		})
	}
	// Others are served meanwhile.
	var done atomic.Bool
	served := make(chan int, 1)
	go func() {
		n := 0
		for ; !done.Load() || n == 0; n++ {
			if got := wait(t, "a small answer", r.post(oneInput)); !strings.HasPrefix(got, "200 ") {
				t.Errorf("a small request: %.300s", got)
			}
		}
		served <- n
	}()
	clients.Wait()
	done.Store(true)
	n := wait(t, "the other client's end", served)
	if got := peak(t, pid); got > memoryLimit {
		t.Errorf("it took %d MiB", got>>20)
	} else {
		t.Logf("%d small requests were served, peak %d MiB", n, got>>20)
	}
	r.passes("--load", "4")
}

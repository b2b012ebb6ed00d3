package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/coaching/postgres/pgtest"
	"agentd/internal/base/waittest"
	"agentd/llama/synth"
)

// startProcess runs the program as a separate process. stop kills it.
func startProcess(t *testing.T, args ...string) *running {
	t.Helper()
	return startProcessAt(t, "0", args...)
}

func startProcessAt(t *testing.T, port string, args ...string) *running {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, func(ctx context.Context, stderr io.Writer) error {
		cmd := exec.CommandContext(ctx, exe, append(args, "--port", port, "--log-format", "json")...)
		cmd.Env = append(os.Environ(), programVariable+"=1")
		cmd.Stderr = stderr
		return cmd.Run()
	})
}

// fixedPort is a port for a process that is killed and started again. It lies below those that
// the system gives to connections, one of which could take it in between.
func fixedPort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := fmt.Sprint(20000 + rand.N(10000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// kill ends a process as a crash does.
func (r *running) kill() {
	r.stop()
	_ = r.end() // killed
}

// cluster is several agentd on one database.
type cluster struct {
	t        *testing.T
	database *pgtest.Server
	args     []string // of each agentd
	refused  atomic.Int64

	mu       sync.Mutex
	replicas []*running
}

// embedded are the options of an agentd that computes a tiny model itself.
func embedded(t *testing.T) []string {
	return []string{"--model", tinyModel(t, synth.Qwen3), "--threads", "1", "--context-length", "2048", "--device", "cpu"}
}

func newCluster(t *testing.T, replicas int, args ...string) *cluster {
	keys := filepath.Join(t.TempDir(), "keys")
	key := sha256.Sum256([]byte(t.Name()))
	writeFile(t, keys, hex.EncodeToString(key[:])+"\n")
	c := &cluster{t: t, database: pgtest.Start(t, true)}
	// A busy machine is not the database's fault, and a connection that hangs is tried again.
	url := fmt.Sprintf("%s&connect_timeout=%.0f", c.database.URL, patience.Seconds()/4)
	c.args = append(args, "--store", url, "--store-key-file", keys)
	for range replicas {
		c.replicas = append(c.replicas, startProcess(t, c.args...))
	}
	return c
}

// replica is one of them, as it runs now or did before it was killed.
func (c *cluster) replica(i int) *running {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replicas[i]
}

// restart starts another replica in the place of a killed one.
func (c *cluster) restart(i int) {
	r := startProcess(c.t, c.args...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replicas[i] = r
}

// replace kills a replica and starts another one.
func (c *cluster) replace(i int) {
	c.replica(i).kill()
	c.restart(i)
}

// send sends a request to replicas drawn by chance until one answers it. Before that, a
// request may only fail in ways that a client can try again. failed reports that some did.
func (c *cluster) send(method, path, body string) (status int, answer string, failed bool) {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		r := c.replica(rand.N(len(c.replicas)))
		status, header, answer, err := exchangeHeader(method, r.url+path, body, nil)
		if err == nil && !temporary(status) {
			return status, answer, failed
		}
		if err == nil && !retryable(header, answer) {
			c.t.Errorf("%s %s is refused with %d %v %s", method, path, status, header, answer)
			return status, answer, failed
		}
		failed = true
		c.refused.Add(1)
		if time.Now().After(deadline) {
			c.t.Errorf("%s %s is not answered: %d %s, %v\n%s", method, path, status, answer, err, r.log)
			return status, answer, failed
		}
	}
}

// temporary reports whether a status invites to try again.
func temporary(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusBadGateway || status == http.StatusTooManyRequests
}

// retryable reports whether a refusal says when to try again, and why it is one.
func retryable(header http.Header, answer string) bool {
	var body struct {
		Detail string `json:"detail"`
	}
	return header.Get("Retry-After") != "" && json.Unmarshal([]byte(answer), &body) == nil && body.Detail != ""
}

// chatCoach is a coach that gives each question another answer.
type chatCoach struct {
	*httptest.Server
	asked atomic.Int64
}

func countingCoach(t *testing.T) *chatCoach {
	c := &chatCoach{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answerChat(w, fmt.Sprintf(`{"why": "It is locked.", "outcome": "corrected", "reinjection_point_id": "start", "decision": {"say": "answer %d", "tool_calls": []}}`, c.asked.Add(1)))
	}))
	t.Cleanup(c.Close)
	return c
}

// requestIn is a coaching request in a run.
func requestIn(t *testing.T, run string) string {
	return strings.ReplaceAll(coachingRequest(t, "a"), "run/1", run)
}

// coachedRun configures a session, gets one answer three times, and closes it. ok is false
// after a failure of the test.
func (c *cluster) coachedRun(run, coach string) (ok bool) {
	path, request := "/v1/coaching/sessions/"+run, requestIn(c.t, run)
	if status, answer, _ := c.send("PUT", path, llmSession("openai", coach)); status != http.StatusNoContent {
		c.t.Errorf("PUT of %s: %d %s", run, status, answer)
		return false
	}
	var first string
	for range 3 {
		status, answer, _ := c.send("POST", "/v1/coaching", request)
		if first == "" {
			first = answer
		}
		if status != http.StatusOK || answer != first || !strings.Contains(answer, "answer ") {
			c.t.Errorf("POST in %s: %d %s, before %s", run, status, answer, first)
			return false
		}
	}
	return c.closeRun(run)
}

// closeRun closes a session, which then is unknown.
func (c *cluster) closeRun(run string) (ok bool) {
	path := "/v1/coaching/sessions/" + run
	status, answer, failed := c.send("DELETE", path, "")
	if status != http.StatusNoContent && (!failed || status != http.StatusNotFound) {
		c.t.Errorf("DELETE of %s: %d %s", run, status, answer)
		return false
	}
	if status, answer, _ := c.send("POST", "/v1/coaching", requestIn(c.t, run)); status != http.StatusNotFound {
		c.t.Errorf("POST after DELETE of %s: %d %s", run, status, answer)
		return false
	}
	return true
}

// sessionsBecome waits until so many sessions exist.
func (c *cluster) sessionsBecome(n int) {
	c.t.Helper()
	waittest.Eventually(c.t, fmt.Sprint(n, " sessions"), func() bool {
		_, page, err := exchange("GET", c.replica(0).url+"/metrics", "")
		return err == nil && strings.Contains(page, fmt.Sprintf("\nagentd_coaching_sessions %d\n", n))
	})
}

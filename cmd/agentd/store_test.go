package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
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

	"agentd/internal/postgres/pgtest"
	"agentd/llama/synth"
)

// startProcess runs the program as a process of its own. stop kills it.
func startProcess(t *testing.T, args ...string) *running {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, func(ctx context.Context, stderr io.Writer) error {
		cmd := exec.CommandContext(ctx, exe, append(args, "--port", "0", "--log-format", "json")...)
		cmd.Env = append(os.Environ(), programVariable+"=1")
		cmd.Stderr = stderr
		return cmd.Run()
	})
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
	keys     string

	mu       sync.Mutex
	replicas []*running
}

func newCluster(t *testing.T, replicas int) *cluster {
	c := &cluster{t: t, database: pgtest.Start(t, true), keys: filepath.Join(t.TempDir(), "keys")}
	key := sha256.Sum256([]byte(t.Name()))
	writeFile(t, c.keys, hex.EncodeToString(key[:])+"\n")
	for range replicas {
		c.replicas = append(c.replicas, c.replica())
	}
	return c
}

func (c *cluster) replica() *running {
	return startProcess(c.t, "--model", tinyModel(c.t, synth.Qwen3), "--threads", "1", "--context-length", "2048", "--device", "cpu", "--store", c.database.URL, "--store-key-file", c.keys)
}

// replace kills a replica and starts another one.
func (c *cluster) replace(i int) {
	c.mu.Lock()
	old := c.replicas[i]
	c.mu.Unlock()
	old.kill()
	r := c.replica()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replicas[i] = r
}

// send sends a request to replicas drawn by chance until one answers it. Before that, a
// request may only fail in ways that a client can try again. failed tells that some did.
func (c *cluster) send(method, path, body string) (status int, answer string, failed bool) {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		r := c.replicas[rand.N(len(c.replicas))]
		c.mu.Unlock()
		status, answer, err := exchange(method, r.url+path, body)
		if err == nil && status != http.StatusServiceUnavailable {
			return status, answer, failed
		}
		failed = true
		if time.Now().After(deadline) {
			c.t.Errorf("%s %s is not answered: %d %s, %v", method, path, status, answer, err)
			return status, answer, failed
		}
	}
}

// TestKilledReplicasAndDatabaseLoseNothing under load: every session that was configured
// answers until it is closed, and every answer that was given is given again.
func TestKilledReplicasAndDatabaseLoseNothing(t *testing.T) {
	c := newCluster(t, 2)
	var asked, done atomic.Int64
	coach := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answerChat(w, fmt.Sprintf(`{"why": "It is locked.", "outcome": "corrected", "reinjection_point_id": "start", "decision": {"say": "answer %d", "tool_calls": []}}`, asked.Add(1)))
	}))
	t.Cleanup(coach.Close)
	template := coachingRequest(t, "ID")
	stop := make(chan struct{})
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				run := fmt.Sprintf("run-%d-%d", w, i)
				path := "/v1/coaching/sessions/" + run
				if status, answer, _ := c.send("PUT", path, llmSession("openai", coach.URL)); status != http.StatusNoContent {
					t.Errorf("PUT of %s: %d %s", run, status, answer)
					return
				}
				var first string
				request := strings.NewReplacer("run/1", run, `"ID"`, `"a"`).Replace(template)
				for range 3 {
					status, answer, _ := c.send("POST", "/v1/coaching", request)
					if first == "" {
						first = answer
					}
					if status != http.StatusOK || answer != first || !strings.Contains(answer, "answer ") {
						t.Errorf("POST in %s: %d %s, before %s", run, status, answer, first)
						return
					}
				}
				status, answer, failed := c.send("DELETE", path, "")
				if status != http.StatusNoContent && (!failed || status != http.StatusNotFound) {
					t.Errorf("DELETE of %s: %d %s", run, status, answer)
				}
				if status, answer, _ := c.send("POST", "/v1/coaching", request); status != http.StatusNotFound {
					t.Errorf("POST after DELETE of %s: %d %s", run, status, answer)
				}
				done.Add(1)
			}
		})
	}
	progress := func() {
		t.Helper()
		want := done.Load() + 20
		for deadline := time.Now().Add(patience); done.Load() < want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) || t.Failed() {
				t.Error("the load does not go on")
				return
			}
		}
	}
	progress()
	c.replace(0)
	progress()
	c.database.Kill()
	for _, r := range c.replicas {
		if status, body, err := exchange("GET", r.url+"/health", ""); err != nil || status != http.StatusOK {
			t.Errorf("health without the database: %d %s, %v", status, body, err)
		}
	}
	c.database.Restart(t)
	progress()
	c.replace(1)
	progress()
	close(stop)
	work.Wait()
	// What crashed replicas held has ended by itself.
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		_, page, err := exchange("GET", c.replicas[0].url+"/metrics", "")
		if err == nil && strings.Contains(page, "\nagentd_coaching_sessions 0\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("sessions are left: %v", err)
		}
	}
	t.Logf("%d sessions, the coach was asked %d times", done.Load(), asked.Load())
}

// TestPersonsAnswerSurvivesEveryCrash: the agent's server is killed while a person works,
// then the database, then the console at which they answer.
func TestPersonsAnswerSurvivesEveryCrash(t *testing.T) {
	c := newCluster(t, 1)
	first := startProcess(t, "console", "--store", c.database.URL)
	second := startProcess(t, "console", "--store", c.database.URL)
	if status, answer, _ := c.send("PUT", session1, humanSession(first.url)); status != http.StatusNoContent {
		t.Fatalf("PUT: %d %s", status, answer)
	}
	answers := make(chan string, 1)
	go func() {
		status, answer, _ := c.send("POST", "/v1/coaching", coachingRequest(t, "c1"))
		answers <- fmt.Sprint(status, " ", answer)
	}()
	id := openTask(t, second)
	c.replace(0)
	c.database.Kill()
	c.database.Restart(t)
	var claim struct{ Claim string }
	until := func(path, body string, v any) {
		t.Helper()
		for deadline := time.Now().Add(patience); send(t, http.MethodPost, second.url+path, body, "", v) != http.StatusOK; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s is not answered", path)
			}
		}
	}
	until("/api/tasks/"+id+"/claim", `{"person":"Ann"}`, &claim)
	until("/api/tasks/"+id+"/answer", fmt.Sprintf(`{"claim":%q,%s}`, claim.Claim, personCorrects), nil)
	second.kill()
	if got := wait(t, "the answer", answers); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "The pantry is locked.") {
		t.Errorf("got %s", got)
	}
	var list struct{ Tasks []struct{ ID string } }
	if send(t, http.MethodGet, first.url+"/api/tasks?state=done", "", "", &list); len(list.Tasks) != 1 {
		t.Errorf("%d tasks, want one", len(list.Tasks))
	}
}

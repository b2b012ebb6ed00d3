package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/coaching/console"
	"agentd/protocol"
)

// chaos is a whole installation under load: agentd before engines, with sessions in a
// database and a console. Its parts are killed and started again.
type chaos struct {
	*cluster
	consoleURL    string
	consoleFolder string
	endConsole    func()
	inputs        []protocol.AgentInput
	coach         *chatCoach

	stop, home      chan struct{} // end the clients, and the person
	clients, people sync.WaitGroup
	leave           func() // closes stop
	stopped         sync.Once
	// ended counts what clients of each kind finished.
	ended map[string]*atomic.Int64
	// broken counts candidates whose engine died within its answer.
	broken atomic.Int64

	mu      sync.Mutex
	persons map[string]string // runs by the text that their person answered
	held    string            // the run whose task nobody answers yet
}

// part is what can be killed.
type part struct {
	name        string
	kill, start func()
}

// number is an environment variable for longer tests.
func numberOf(t *testing.T, variable string, usual uint64) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv(variable), fmt.Sprint(usual)), 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// TestKillingEveryPartInTurnLosesNothing kills and restarts two agentd, two engines, the
// console and PostgreSQL, one or two of them at a time, in an order drawn from a seed. Every
// request ends as a whole answer or as a refusal that may be retried. Sessions, answers and
// people's tasks survive, and none of them comes twice.
func TestKillingEveryPartInTurnLosesNothing(t *testing.T) {
	t.Parallel()
	seed, rounds := numberOf(t, "AGENTD_CHAOS_SEED", 1), numberOf(t, "AGENTD_CHAOS_ROUNDS", 1)
	t.Logf("AGENTD_CHAOS_SEED=%d AGENTD_CHAOS_ROUNDS=%d", seed, rounds)
	draw := rand.New(rand.NewPCG(seed, 0))
	c, parts := startChaos(t)

	kept := c.keep("kept", llmSession("openai", c.coach.URL))
	held := make(chan string, 1)
	c.held = "held"
	go func() {
		if c.configure("held", humanSession(c.consoleURL)) {
			held <- c.personCorrects("held")
		}
		close(held)
	}()

	defer c.end()
	c.load()
	c.goesOn()
	for range rounds {
		order := draw.Perm(len(parts))
		for len(order) > 0 {
			n := min(1+draw.IntN(2), len(order))
			down := order[:n]
			order = order[n:]
			for _, i := range down {
				t.Logf("kill %s", parts[i].name)
				parts[i].kill()
			}
			c.attempts(5 + draw.IntN(40))
			slices.Sort(down) // PostgreSQL first: agentd ends without it
			for _, i := range down {
				parts[i].start()
			}
			c.goesOn()
			if t.Failed() {
				break
			}
		}
	}
	c.leave() // clients need not load the machine while the held task waits for its killed server's lease
	c.mu.Lock()
	c.held = ""
	c.mu.Unlock()
	if text := wait(t, "the answer of the task that was open all the time", held); text == "" {
		return
	}
	c.end()

	if status, answer, _ := c.send("POST", "/v1/coaching", requestIn(t, "kept")); status != http.StatusOK || answer != kept {
		t.Errorf("the session from the beginning answers %d %s, before %s", status, answer, kept)
	}
	c.closeRun("kept")
	c.closeRun("held")
	c.sessionsBecome(0) // also sessions of servers that crashed
	c.tasksMatchAnswers()
	for kind, n := range c.ended {
		t.Logf("%s: %d", kind, n.Load())
	}
	t.Logf("requests refused: %d; candidates broken off: %d; the coach was asked %d times", c.refused.Load(), c.broken.Load(), c.coach.asked.Load())
}

// startChaos starts all parts.
func startChaos(t *testing.T) (*chaos, []part) {
	engines, ports := make([]*running, 2), []string{fixedPort(t), fixedPort(t)}
	startEngine := func(i int) {
		engines[i] = startProcessAt(t, ports[i], "--threads", "1", "--context-length", "8192", "--device", "cpu")
	}
	urls := make([]string, len(ports))
	for i, port := range ports {
		startEngine(i)
		urls[i] = "http://127.0.0.1:" + port
	}
	c := &chaos{cluster: newCluster(t, 2, "--engine", strings.Join(urls, ",")), coach: countingCoach(t), stop: make(chan struct{}), home: make(chan struct{}), persons: map[string]string{}, ended: map[string]*atomic.Int64{}}
	c.leave = sync.OnceFunc(func() { close(c.stop) })
	for _, kind := range []string{"decisions", "sessions with a model", "sessions with a person"} {
		c.ended[kind] = new(atomic.Int64)
	}
	port := fixedPort(t)
	c.consoleFolder = t.TempDir()
	startConsole := func() *running {
		return startProcessAt(t, port, "console", "--data-dir", c.consoleFolder, "--claim", "10s")
	}
	page := startConsole()
	c.consoleURL, c.endConsole = page.url, func() { page.kill() }
	parts := []part{
		{"PostgreSQL", func() {
			c.database.Kill()
			for i := range 2 { // of which one may be down, or not yet ready
				status, body, err := exchange("GET", c.replica(i).url+"/health", "")
				if err == nil && status != http.StatusOK && !strings.Contains(body, protocol.HealthLoading) {
					t.Errorf("health without the database: %d %s", status, body)
				}
			}
		}, func() { c.database.Restart(t) }},
		{"the console", c.endConsole, func() { page = startConsole() }},
	}
	for i := range 2 {
		parts = append(parts,
			part{fmt.Sprint("agentd ", i), func() { c.replica(i).kill() }, func() { c.restart(i) }},
			part{fmt.Sprint("engine ", i), func() { engines[i].kill() }, func() { startEngine(i) }})
		c.replica(i).health("ready")
	}
	c.inputs = householdInputs(t, newClient(t, c.replica(0)), 24)
	return c, parts
}

// load starts the clients, and a person who answers tasks.
func (c *chaos) load() {
	client := func(kind string, once func(i int) (ok bool)) {
		c.clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-c.stop:
					return
				case <-time.After(25 * time.Millisecond): // as a simulation takes for its step
				}
				if !once(i) {
					return
				}
				c.ended[kind].Add(1)
			}
		})
	}
	for w := range 3 {
		client("decisions", func(i int) bool { return c.decides(uint64(3*i + w)) })
	}
	for w := range 4 { // some wait for the leases of a server that was killed
		client("sessions with a model", func(i int) bool { return c.coachedRun(fmt.Sprintf("model-%d-%d", w, i), c.coach.URL) })
		client("sessions with a person", func(i int) bool {
			run := fmt.Sprintf("person-%d-%d", w, i)
			return c.configure(run, humanSession(c.consoleURL)) && c.personCorrects(run) != "" && c.closeRun(run)
		})
	}
	c.people.Go(c.person)
}

// end stops the clients, then the person.
func (c *chaos) end() {
	c.stopped.Do(func() {
		c.leave()
		c.clients.Wait() // for their person, too
		close(c.home)
		c.people.Wait()
	})
}

// decides gets two candidates for one of the inputs, half of the time greedy ones.
func (c *chaos) decides(i uint64) (ok bool) {
	in := c.inputs[i%uint64(len(c.inputs))]
	in.NumOutputs = 2
	if i%2 == 1 {
		in.ExtraKeys = protocol.Raw(`{"inference_mode": true}`)
	}
	req := protocol.AgentRequest{RequestID: fmt.Sprint("d", i), Inputs: []protocol.AgentInput{in}}
	text := string(req.AppendJSON(nil))
	status, answer, _ := c.send("POST", "/v1/responses", text)
	outs, err := checked(text, answer)
	if status != http.StatusOK || err != nil {
		c.t.Errorf("%d %s: %v", status, answer, err)
		return false
	}
	for _, o := range outs {
		switch {
		case o.Error == nil || o.Error.Code == "invalid_output" || o.Error.Code == "truncated": // the model's own mistakes
		case o.Error.Code == "model_error" && strings.Contains(o.Error.Message, "broke off"):
			c.broken.Add(1)
		default:
			c.t.Errorf("a candidate ended with %s", answerOf(o))
			return false
		}
	}
	return true
}

// configure configures a session.
func (c *chaos) configure(run, config string) (ok bool) {
	status, answer, _ := c.send("PUT", "/v1/coaching/sessions/"+run, config)
	if status != http.StatusNoContent {
		c.t.Errorf("PUT of %s: %d %s", run, status, answer)
	}
	return status == http.StatusNoContent
}

// keep configures a session and returns its first answer.
func (c *chaos) keep(run, config string) (answer string) {
	if !c.configure(run, config) {
		return ""
	}
	status, answer, _ := c.send("POST", "/v1/coaching", requestIn(c.t, run))
	if status != http.StatusOK {
		c.t.Errorf("POST in %s: %d %s", run, status, answer)
	}
	return answer
}

// personSays finds what a person answered to a task.
var personSays = regexp.MustCompile(`Task \d+ of [\w-]+\.`)

// personCorrects asks twice for a person's answer, which must be the same, and returns its
// text. While no person can be reached, the answer is an error, and the request is sent again.
func (c *chaos) personCorrects(run string) (text string) {
	ask := func() string {
		for deadline := time.Now().Add(patience); ; {
			status, answer, _ := c.send("POST", "/v1/coaching", requestIn(c.t, run))
			var res struct{ Status string }
			err := json.Unmarshal([]byte(answer), &res)
			if err == nil && status == http.StatusOK && res.Status != protocol.CoachingFailed {
				return answer
			}
			if err != nil || status != http.StatusOK || time.Now().After(deadline) {
				c.t.Errorf("POST in %s: %d %s, %v", run, status, answer, err)
				return ""
			}
		}
	}
	first, again := ask(), ask()
	text = personSays.FindString(first)
	if first != again || !strings.HasSuffix(text, " "+run+".") {
		c.t.Errorf("the person's answer in %s is %s, then %s", run, first, again)
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.persons[text]; other != "" {
		c.t.Errorf("%s and %s got the same answer %q", run, other, text)
	}
	c.persons[text] = run
	return text
}

// listedTask is one in the console's list.
type listedTask struct {
	ID  string
	Run string `json:"run_id"`
}

// atConsole makes a request of the people's page. ok is false while the console or its
// database is down, or somebody else was faster.
func (c *chaos) atConsole(method, path, body string, into any) (ok bool) {
	status, header, answer, err := exchangeHeader(method, c.consoleURL+path, body, http.Header{"X-Agentd-Console": {"1"}})
	switch {
	case err != nil || status == http.StatusConflict:
		return false
	case temporary(status):
		if !retryable(header, answer) {
			c.t.Errorf("the console refuses %s with %d %v %s", path, status, header, answer)
		}
		return false
	case status != http.StatusOK || into != nil && json.Unmarshal([]byte(answer), into) != nil:
		c.t.Errorf("the console answers %s with %d %s", path, status, answer)
		return false
	}
	return true
}

// person answers every open task but the one that is held. A claim whose answer was lost
// ends soon.
func (c *chaos) person() {
	for {
		select {
		case <-c.home:
			return
		case <-time.After(20 * time.Millisecond):
		}
		var list struct{ Tasks []listedTask }
		c.atConsole("GET", "/api/tasks", "", &list)
		c.mu.Lock()
		held := c.held
		c.mu.Unlock()
		for _, task := range list.Tasks {
			var claim struct{ Claim string }
			if task.Run == held || !c.atConsole("POST", "/api/tasks/"+task.ID+"/claim", `{"person":"Ann"}`, &claim) {
				continue
			}
			c.atConsole("POST", "/api/tasks/"+task.ID+"/answer", fmt.Sprintf(
				`{"claim":%q,"status":"completed","point":"start","decision":{"say":"Task %s of %s.","tool_calls":[]}}`, claim.Claim, task.ID, task.Run), nil)
		}
	}
}

// tasksMatchAnswers compares the tasks of the console, which it ends, with the answers that agents
// got: one task and one answer for each.
func (c *chaos) tasksMatchAnswers() {
	var open struct{ Tasks []listedTask }
	if !c.atConsole("GET", "/api/tasks", "", &open) || len(open.Tasks) > 0 {
		c.t.Errorf("tasks are open: %v", open.Tasks)
	}
	c.endConsole()
	n := 0
	err := console.EachCorrected(filepath.Join(c.consoleFolder, "console.db"), func(task *console.Corrected) error {
		n++
		if run := task.Request.RunID; c.persons[fmt.Sprintf("Task %s of %s.", task.ID, run)] != run {
			c.t.Errorf("no agent got the answer of task %s of %s", task.ID, run)
		}
		return nil
	})
	if err != nil || n != len(c.persons) {
		c.t.Errorf("the console has %d answered tasks, agents got %d answers: %v", n, len(c.persons), err)
	}
}

// attempts waits until clients were refused or answered so many times.
func (c *chaos) attempts(n int) {
	c.t.Helper()
	all := func() (sum int64) {
		sum = c.refused.Load()
		for _, ended := range c.ended {
			sum += ended.Load()
		}
		return sum
	}
	until := all() + int64(n)
	c.becomesTrue("attempts", func() bool { return all() >= until })
}

// goesOn waits until clients of each kind finished something from now on.
func (c *chaos) goesOn() {
	c.t.Helper()
	for kind, ended := range c.ended {
		until := ended.Load() + 2
		c.becomesTrue(kind, func() bool { return ended.Load() >= until })
	}
}

func (c *chaos) becomesTrue(what string, ok func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); !ok() && !c.t.Failed(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Errorf("%s do not go on", what)
		}
	}
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// rolled is what testdata/rollouts.py prints at the end.
type rolled struct {
	Hash    string
	Resumed int // streams that broke off
	Tokens  int
}

// rollouts runs testdata/rollouts.py, and calls done after each rollout.
func rollouts(t *testing.T, p python, count uint64, done func(), urls ...string) (r rolled) {
	t.Helper()
	cmd := p.command(t, append([]string{filepath.Join("testdata", "rollouts.py"), strconv.FormatUint(count, 10)}, urls...)...)
	cmd.Env = append(cmd.Env, "NO_PROXY=127.0.0.1", "AGENTD_TOKEN="+weightsToken)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "." {
			done()
		} else if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Errorf("%s: %v", lines.Bytes(), err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRolloutsOfKilledServersHaveSameBytes as in an undisturbed run: three servers, of which one after the other is killed and
// started again while rollouts are sampled. Another one preempts its rollouts for an urgent decision, and some are paused.
func TestRolloutsOfKilledServersHaveSameBytes(t *testing.T) {
	t.Parallel()
	count, kills := numberOf(t, "AGENTD_ROLLOUTS", 60), numberOf(t, "AGENTD_ROLLOUT_KILLS", 8)
	p := installedPython(t, clientPackages).with(t, filepath.Join("..", "..", "clients", "python"))
	weights, tokens := t.TempDir(), filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "trainer+weights:"+weightsToken+"\n")
	serve := func(port string, args ...string) *running {
		r := startProcessAt(t, port, append([]string{"--device", "cpu", "--threads", "1", "--context-length", "1024"}, append(args, "--weights-dir", weights, "--auth-token-file", tokens)...)...)
		r.health("ready")
		return r
	}
	alone := serve("0", "--context-length", "4096")
	want := rollouts(t, p, count, func() {}, alone.url)
	alone.kill()

	var servers []*running
	var urls, ports []string
	for i := range 3 {
		ports = append(ports, fixedPort(t))
		servers = append(servers, serve(ports[i], "--parallel", fmt.Sprint(2+i)))
		urls = append(urls, servers[i].url)
	}
	ended, killed, preempted := uint64(0), uint64(0), 0
	got := rollouts(t, p, count, func() {
		if ended++; killed == kills || ended < (killed+1)*count/(kills+2) {
			return
		}
		i := int(killed % 3)
		urgent := servers[(i+1)%3]
		urgent.trainer("POST", "/v1/responses", body(t, "urgent", user(1, "Go on").extra(`{"priority": 100}`).outputs(2)), 200, "")
		if _, page, err := urgent.as(weightsToken, "GET", "/metrics", ""); err == nil && !strings.Contains(page, "\nagentd_num_preemptions_total 0\n") {
			preempted++
		}
		killed++
		if killed%4 == 0 {
			servers[i].trainer("POST", "/v1/pause", `{"mode": "abort"}`, 200, "")
			servers[i].trainer("POST", "/v1/resume", "", 200, "")
		}
		servers[i].kill()
		servers[i] = serve(ports[i], "--parallel", fmt.Sprint(2+i))
	}, urls...)
	t.Logf("%d rollouts, %d tokens, %d kills, %d with preemptions, %d streams resumed", count, got.Tokens, killed, preempted, got.Resumed)
	if got.Hash != want.Hash || got.Tokens != want.Tokens {
		t.Errorf("%d tokens with the hash %s, undisturbed %d with %s", got.Tokens, got.Hash, want.Tokens, want.Hash)
	}
	if killed < kills || kills >= 20 && preempted == 0 || got.Resumed == 0 || want.Resumed > 0 {
		t.Errorf("%d kills broke %d streams, and %d of the undisturbed run", killed, got.Resumed, want.Resumed)
	}
}

package suite

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentd/internal/base/subprocess"
)

// Times that a server is given.
const (
	readyLimit = 10 * time.Minute // to load its model; vLLM compiles it
	readyEvery = 20 * time.Millisecond
	stopLimit  = 10 * time.Second
)

// child is a server process in its own process group, so that Ctrl-C reaches it
// through the suite only. The kernel kills it when the suite is killed.
type child struct {
	name     string
	url      string
	cmd      *exec.Cmd
	tail     *tail
	done     chan struct{} // closed when the process has ended
	err      error         // of its end; read after done
	patience time.Duration // of stop
}

// start runs a server and waits until /health answers 200. The server ends with stop.
func start(ctx context.Context, name, program string, args []string) (*child, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	address := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil { // the server takes the free port
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	args = append([]string{"--host", address.IP.String(), "--port", fmt.Sprint(address.Port)}, args...)
	//nolint:gosec,noctx // the program is an option of the suite; stop ends it
	c := &child{name: name, url: "http://" + address.String(), cmd: exec.Command(program, args...), tail: new(tail), done: make(chan struct{}), patience: stopLimit}
	c.cmd.Stdout, c.cmd.Stderr = c.tail, c.tail
	c.cmd.WaitDelay = stopLimit
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = subprocess.Start(c.cmd, syscall.SIGKILL, func(err error) {
		c.err = err
		close(c.done)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := c.ready(ctx); err != nil {
		_ = c.stop() // its error would repeat this one
		return nil, err
	}
	return c, nil
}

// ready waits until the server is ready.
func (c *child) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("%s was not ready after %s", c.name, readyLimit))
	defer cancel()
	every := time.NewTicker(readyEvery)
	defer every.Stop()
	for {
		if healthy(ctx, c.url+"/health") {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.done:
			return fmt.Errorf("%s ended during its start (%w): %s", c.name, c.err, c.tail.last())
		case <-every.C:
		}
	}
}

func healthy(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// stop ends the process by SIGTERM, and its group by SIGKILL after c.patience. A process
// that has ended before is an error.
func (c *child) stop() error {
	select {
	case <-c.done:
		return fmt.Errorf("%s ended by itself (%w): %s", c.name, c.err, c.tail.last())
	default:
	}
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM) // it may have ended just now
	select {
	case <-c.done:
	case <-time.After(c.patience):
	}
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // vLLM has several processes
	<-c.done
	return nil
}

// tailBytes of a process's output are kept for error messages.
const tailBytes = 4 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(p), nil
}

// last are the last three lines, in one.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

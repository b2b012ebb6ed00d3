package suite

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Times that a server is given.
const (
	readyLimit  = 2 * time.Minute // to load its model and say that it is ready
	readyEvery  = 20 * time.Millisecond
	readyAnswer = 2 * time.Second // for one answer of /health
	stopLimit   = 10 * time.Second
)

// tailBytes of a child's output are kept, to say why it ended.
const tailBytes = 4 << 10

// child is a server that runs as a process of its own, in a process group of its
// own: Ctrl-C reaches it through the suite, which stops it. The kernel kills it when
// the suite itself is killed.
type child struct {
	name string
	url  string
	cmd  *exec.Cmd
	tail *tail
	done chan struct{} // closed when the process has ended
	err  error         // of its end; read after done

	patience time.Duration // with a server that is to end
}

// start runs a server and waits until its /health answers 200. args get the address
// to listen on. The server ends with stop, or with ctx.
func start(ctx context.Context, name, program string, args func(host, port string) []string) (*child, error) {
	addr, err := freeAddress(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	//nolint:gosec,noctx // the program is an option of the suite; stop ends it, gently first
	c := &child{name: name, url: "http://" + addr, cmd: exec.Command(program, args(host, port)...), tail: new(tail), done: make(chan struct{}), patience: stopLimit}
	c.cmd.Stdout, c.cmd.Stderr = c.tail, c.tail
	c.cmd.WaitDelay = stopLimit
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the thread ends that started the process, so
		// that one is kept for as long as the process lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.done)
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := c.ready(ctx); err != nil {
		_ = c.stop() // which could only say the same again
		return nil, err
	}
	return c, nil
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress(ctx context.Context) (string, error) {
	var listening net.ListenConfig
	l, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// ready waits until the server is.
func (c *child) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("%s was not ready after %s", c.name, readyLimit))
	defer cancel()
	client := &http.Client{Timeout: readyAnswer, Transport: &http.Transport{DisableKeepAlives: true}}
	every := time.NewTicker(readyEvery)
	defer every.Stop()
	for {
		if healthy(ctx, client, c.url+"/health") {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.done:
			return fmt.Errorf("%s ended while it started (%w): %s", c.name, c.err, c.tail.last())
		case <-every.C:
		}
	}
}

func healthy(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, tailBytes))
	return err == nil && res.StatusCode == http.StatusOK
}

// stop ends the server's group: politely, and by force when that takes too long. A
// server that had ended before is an error, since it did so under load.
func (c *child) stop() error {
	select {
	case <-c.done:
		return fmt.Errorf("%s had ended by itself (%w): %s", c.name, c.err, c.tail.last())
	default:
	}
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM) // it may just have ended
	patience := time.NewTimer(c.patience)
	defer patience.Stop()
	select {
	case <-c.done:
	case <-patience.C:
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		<-c.done
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if n := len(t.text) - tailBytes; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

// last are the last lines, in one.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.text), []byte("\n"))
	lines = lines[max(0, len(lines)-3):]
	return strings.TrimSpace(string(bytes.Join(lines, []byte(" | "))))
}

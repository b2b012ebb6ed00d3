package main

import (
	"bufio"
	"context"
	"encoding/json"
	"hash/crc32"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		os.Exit(0)
	}
	if signal.Ignored(syscall.SIGHUP) { // under nohup; tests send it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen; only failures take it.
const patience = 2 * time.Minute

// wait receives from ch or fails the test.
func wait[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
	return v
}

// logWatcher is a stderr that understands JSON log lines.
type logWatcher struct {
	*io.PipeWriter
	url chan string // from the line that says listening
	mu  sync.Mutex
	all strings.Builder
}

func watchLog(t *testing.T) *logWatcher {
	r, w := io.Pipe()
	l := &logWatcher{PipeWriter: w, url: make(chan string, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			l.mu.Lock()
			l.all.WriteString(lines.Text() + "\n")
			l.mu.Unlock()
			var entry struct{ Message, URL string }
			if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Message == "listening" {
				l.url <- entry.URL
			}
		}
	}()
	t.Cleanup(func() {
		w.Close()
		<-done
	})
	return l
}

func (l *logWatcher) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// bases are the base paths that serve the protocol: the root, as the specification
// has it, and the one for MAGMA's stable packages.
var bases = []string{"", "/magma"}

// atBase runs a test at one base path, which its name chooses: the routes have the same handlers at both, as a test
// of package server shows.
func atBase(t *testing.T, f func(t *testing.T, base string)) {
	base := bases[crc32.ChecksumIEEE([]byte(t.Name()))%uint32(len(bases))]
	t.Run("at "+base+"/", func(t *testing.T) { f(t, base) })
}

// running is a server that a test started, as it is seen at a base path.
type running struct {
	*process
	t    *testing.T
	base string // of bases
	url  string // with the base path
}

// at is the same server at a base path.
func (r *running) at(base string) *running {
	return &running{r.process, r.t, base, strings.TrimSuffix(r.url, r.base) + base}
}

// atOne runs a test against the server at one base path.
func (r *running) atOne(t *testing.T, f func(t *testing.T, r *running)) {
	atBase(t, func(t *testing.T, base string) { r.run(t, base, f) })
}

// atBoth runs a test against the server at one base path, then at the other.
func (r *running) atBoth(t *testing.T, f func(t *testing.T, r *running)) {
	for _, base := range bases {
		t.Run("at "+base+"/", func(t *testing.T) { r.run(t, base, f) })
	}
}

func (r *running) run(t *testing.T, base string, f func(t *testing.T, r *running)) {
	there := r.at(base)
	there.t = t
	f(t, there)
}

// process holds what all views of a server share.
type process struct {
	log  *logWatcher
	done chan error         // what run returned
	stop context.CancelFunc // asks it to drain
	once sync.Once
	err  error
}

// start runs f, which serves until its context ends, and waits for its port.
func start(t *testing.T, f func(ctx context.Context, stderr io.Writer) error) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, process: &process{log: watchLog(t), done: make(chan error, 1), stop: cancel}}
	go func() { r.done <- f(ctx, r.log) }()
	t.Cleanup(func() {
		cancel()
		r.end()
	})
	select {
	case r.url = <-r.log.url:
	case err := <-r.done:
		r.done <- err // for the end
		t.Fatalf("the server ended: %v\n%s", err, r.log)
	case <-time.After(patience):
		t.Fatalf("the server does not listen\n%s", r.log)
	}
	return r
}

// end waits until the server has returned, and says with what.
func (r *running) end() error {
	r.t.Helper()
	r.once.Do(func() {
		select {
		case r.err = <-r.done:
		case <-time.After(patience):
			r.t.Errorf("the server does not end\n%s", r.log)
		}
	})
	return r.err
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

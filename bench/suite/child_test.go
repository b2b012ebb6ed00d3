package suite

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// alive reports whether a process of a child's group is running.
func alive(c *child) bool { return syscall.Kill(-c.cmd.Process.Pid, 0) == nil }

func TestServerIsHealthyAfterStartAndGoneAfterStop(t *testing.T) {
	c, err := start(t.Context(), "fake", self(t, "well"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !alive(c) || !healthy(t.Context(), c.url+"/health") {
		t.Error("it is not up")
	}
	if err := c.stop(); err != nil || alive(c) {
		t.Errorf("it is still there, or %v", err)
	}
}

func TestFailedStartTellsTheServersLastLines(t *testing.T) {
	_, err := start(t.Context(), "fake", self(t, "broken"), nil)
	if err == nil || !strings.Contains(err.Error(), "exit status 3): reading the model | it is not a model") {
		t.Errorf("got %v", err)
	}
}

func TestMissingProgramIsAnError(t *testing.T) {
	if _, err := start(t.Context(), "fake", "/no/such/program", nil); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("got %v", err)
	}
}

func TestStartEndsWithTheContext(t *testing.T) {
	why := errors.New("Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	defer timer.Stop()
	if _, err := start(ctx, "fake", self(t, "loading"), nil); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestStopReportsAServerThatEndedByItself(t *testing.T) {
	c, err := start(t.Context(), "fake", self(t, "well"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if healthy(t.Context(), c.url+"/exit") {
		t.Error("it answered")
	}
	<-c.done
	if err := c.stop(); err == nil || !strings.Contains(err.Error(), "fake ended by itself (exit status 5): out of memory") {
		t.Errorf("got %v", err)
	}
}

func TestServerThatIgnoresSIGTERMIsKilled(t *testing.T) {
	c, err := start(t.Context(), "fake", self(t, "deaf"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.patience = time.Millisecond
	if err := c.stop(); err != nil || alive(c) {
		t.Errorf("it is still there, or %v", err)
	}
}

func TestTailKeepsTheLastLines(t *testing.T) {
	var x tail
	for range 1000 {
		if n, err := x.Write([]byte("0123456789\n")); n != 11 || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(x.text) != tailBytes {
		t.Errorf("it keeps %d bytes", len(x.text))
	}
	if _, err := x.Write([]byte("the\nend\n\n")); err != nil || x.last() != "0123456789 | the | end" {
		t.Errorf("got %q, %v", x.last(), err)
	}
}

package suite

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func address(host, port string) []string { return []string{"--host", host, "--port", port} }

// alive tells whether any process of a child's group is.
func alive(c *child) bool { return syscall.Kill(-c.cmd.Process.Pid, 0) == nil }

func TestAServerIsStartedWhenItIsHealthyAndIsGoneWhenItIsStopped(t *testing.T) {
	c, err := start(t.Context(), "fake", self(t, "well"), address)
	if err != nil {
		t.Fatal(err)
	}
	if !alive(c) || !healthy(t.Context(), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, c.url+"/health") {
		t.Error("it is not up")
	}
	if err := c.stop(); err != nil || alive(c) {
		t.Errorf("it is still there, or %v", err)
	}
}

func TestAServerThatEndsWhileItStartsSaysWhy(t *testing.T) {
	_, err := start(t.Context(), "fake", self(t, "broken"), address)
	if err == nil || !strings.Contains(err.Error(), "exit status 3): reading the model | it is no model") {
		t.Errorf("got %v", err)
	}
}

func TestAProgramThatIsMissingIsAnError(t *testing.T) {
	if _, err := start(t.Context(), "fake", "/no/such/program", address); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatIsNeverReadyEndsWithTheContext(t *testing.T) {
	why := errors.New("Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	defer timer.Stop()
	if _, err := start(ctx, "fake", self(t, "loading"), address); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatEndedUnderLoadIsAnErrorOfItsStop(t *testing.T) {
	c, err := start(t.Context(), "fake", self(t, "well"), address)
	if err != nil {
		t.Fatal(err)
	}
	if healthy(t.Context(), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, c.url+"/exit") {
		t.Error("it answered")
	}
	<-c.done
	if err := c.stop(); err == nil || !strings.Contains(err.Error(), "fake had ended by itself (exit status 5): out of memory") {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatDoesNotListenIsKilled(t *testing.T) {
	c, err := start(t.Context(), "fake", self(t, "deaf"), address)
	if err != nil {
		t.Fatal(err)
	}
	c.patience = time.Millisecond
	if err := c.stop(); err != nil || alive(c) {
		t.Errorf("it is still there, or %v", err)
	}
}

func TestTheTailIsTheEndOfWhatWasPrinted(t *testing.T) {
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

package subprocess

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestProgramOutlivesTheThreadOfTheCaller(t *testing.T) {
	cmd, ended := exec.Command("sleep", "60"), make(chan error, 1)
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		started <- Start(cmd, syscall.SIGKILL, func(err error) { ended <- err })
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatal("it ended:", err)
	case <-time.After(time.Second):
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-ended
}

func TestProgramThatIsMissing(t *testing.T) {
	cmd := exec.Command("/missing")
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	if err := Start(cmd, syscall.SIGKILL, func(error) { t.Error("it ended") }); err == nil {
		t.Error("no error")
	}
}

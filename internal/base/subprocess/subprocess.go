// Package subprocess starts programs that end with this process.
package subprocess

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts a program, which gets a signal when this process ends. Its SysProcAttr must be set. ended gets the error
// of its Wait. If Start returns an error, ended is not called.
//
// The kernel sends Pdeathsig when the starting thread ends, so one thread is kept for the program. Others may end with
// a goroutine, as a worker of the scheduler does.
func Start(cmd *exec.Cmd, signal syscall.Signal, ended func(error)) error {
	cmd.SysProcAttr.Pdeathsig = signal
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	return <-started
}

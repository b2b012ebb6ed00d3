package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// ompSpin is how long a compute thread waits actively for the others, in rounds of
// libgomp's loop (some 10 microseconds), before it sleeps. libgomp's own 300,000 rounds
// keep a processor from the thread that all wait for: beside two busy programs on two
// cores agentd made a twentieth of its decisions. Without any rounds a step of a small
// model takes half as long again, since each operation puts threads to sleep.
const ompSpin = "400"

// ompSettings are the variables by which users choose that themselves.
var ompSettings = []string{"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}

// setWaiting starts this program again with ompSpin in its environment, unless that or
// one of the user's own settings is there: libgomp reads it once, before main. It
// returns when there is nothing to do, or with why it failed.
func setWaiting() error {
	for _, name := range ompSettings {
		if _, set := os.LookupEnv(name); set {
			return nil
		}
	}
	self, err := os.Executable()
	name := os.Args[0]
	if found, lost := exec.LookPath(name); lost == nil {
		name = found
	}
	if target, broken := filepath.EvalSymlinks(name); broken == nil {
		name = target
	}
	switch {
	case err != nil:
	case filepath.Base(self) != filepath.Base(name):
		err = fmt.Errorf("%s was started by %s", os.Args[0], self) // a loader, which would load the first argument
	default:
		//nolint:gosec // this program starts itself again
		err = syscall.Exec(self, os.Args, append(os.Environ(), ompSettings[0]+"="+ompSpin))
	}
	return fmt.Errorf("set %s=%s: without it agentd is slow beside other busy programs: %w", ompSettings[0], ompSpin, err)
}

// Command agentd serves a full-history agent over HTTP: a llama.cpp model
// with the agent server protocol, in one process.
//
// agentd help lists the commands. Each is a package below this one.
package main

//go:generate go run ./internal/optionsdoc ../..

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"agentd/cmd/agentd/serve"
)

// output is standard output with the first error of writing to it, as of a full disk.
type output struct {
	*os.File
	err error
}

func (o *output) Write(b []byte) (n int, err error) {
	n, err = o.File.Write(b)
	o.err = cmp.Or(o.err, err)
	return n, err
}

func main() {
	stdout := &output{File: os.Stdout}
	err := run(context.Background(), os.Args[1:], stdout, os.Stderr)
	if err = cmp.Or(err, stdout.err); err != nil {
		if _, logged := errors.AsType[*serve.Logged](err); !logged {
			fmt.Fprintf(os.Stderr, "agentd: %v\n", err)
		}
		os.Exit(exitStatus(err))
	}
}

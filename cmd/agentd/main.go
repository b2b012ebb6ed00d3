// Command agentd serves a full-history agent over HTTP: a llama.cpp model
// with the agent server protocol, in one process.
//
// agentd help lists the commands. Each is a package below this one.
package main

//go:generate go run ./internal/optionsdoc ../..

import (
	"context"
	"errors"
	"fmt"
	"os"

	"agentd/cmd/agentd/serve"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if _, logged := errors.AsType[*serve.Logged](err); !logged {
			fmt.Fprintf(os.Stderr, "agentd: %v\n", err)
		}
		os.Exit(exitStatus(err))
	}
}

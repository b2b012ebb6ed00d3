// Command agentd serves a full-history agent over HTTP: a llama.cpp model
// behind the agent server protocol, in one process.
//
//	agentd [serve] [options]     start the server
//	agentd console [options]     start the web page on which people coach
//	agentd demo [options]        show a running server at work in a simulated household
//	agentd check URL [options]   judge an agent server
//	agentd export [options]      make training data of what agents decided
//	agentd make-model [options]  write a random-weight model file
//	agentd version               print the version
//
// Each command is a package below this one.
package main

//go:generate go run ./internal/optionsdoc ../../docs/options.md

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "agentd: %v\n", err)
		os.Exit(exitStatus(err))
	}
}

// Command agentbench measures how many decisions a second a server makes on agent
// workloads, and compares servers.
//
//	agentbench run [options]              send a trace to a server and measure
//	agentbench compare FILE.json…         show results side by side, and plots
//	agentbench suite [options]            the standard comparison of make bench
//	agentbench version                    print the version
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "agentbench: %v\n", err)
		os.Exit(1)
	}
}

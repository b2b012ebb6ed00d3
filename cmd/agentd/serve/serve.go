package serve

import (
	"context"
	"io"
	"os"

	"agentd/internal/options"
)

// Run is the command. Cancelling ctx asks the server to drain, as a first signal does.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, from, err := Parse(args, os.LookupEnv, stdout)
	if err != nil {
		return err
	}
	return New(c, from, stderr).Run(ctx)
}

// Parse makes a Config from its layers, each winning over the one before: defaults, the
// configuration file, AGENTD_* variables, flags.
func Parse(args []string, lookupEnv func(string) (string, bool), stdout io.Writer) (*Config, options.Origins, error) {
	c := DefaultConfig()
	from, _, err := c.Command().Parse(spelled(args), lookupEnv, stdout)
	if err != nil {
		return c, from, err
	}
	return c, from, c.Validate(from)
}

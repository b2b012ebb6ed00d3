package serve

import (
	"context"
	"errors"
	"io"
	"os"

	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
)

// Run is the command. Cancelling ctx asks the server to drain, as a first signal does.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, from, err := Parse(args, os.LookupEnv, stdout)
	if err == nil {
		cli.OutliveReaders()
		err = New(c, from, stderr).Run(ctx)
	} else if !errors.Is(err, options.ErrDone) {
		err = &wrongSetting{err}
	}
	if err != nil && !errors.Is(err, options.ErrDone) && c.Log.Format == "json" {
		log := c.Log.New(stderr)
		log.Error().Err(err).Msg("the server ends")
		return &Logged{err}
	}
	return err
}

// statusUsage is EX_USAGE of sysexits.h. A supervisor need not try again.
const statusUsage = 64

// wrongSetting is an error of an option or a variable.
type wrongSetting struct{ error }

func (e *wrongSetting) Unwrap() error { return e.error }

// ExitStatus is the program's.
func (e *wrongSetting) ExitStatus() int { return statusUsage }

// Logged is an error that is in the log already, as one line of JSON.
type Logged struct{ error }

func (e *Logged) Unwrap() error { return e.error }

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

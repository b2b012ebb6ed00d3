package serve

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// spellings are options of other runtimes for the same.
var spellings = map[string]string{"-m": "--model", "-hf": "--hf"}

// spelled replaces spellings. A model in the place of the first option means --model.
func spelled(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		if ours, ok := spellings[name]; ok && given {
			args[i] = ours + "=" + value
		} else if ok {
			args[i] = ours
		}
	}
	if len(args) > 0 && IsModel(args[0]) {
		args = slices.Insert(args, 0, "--model")
	}
	return args
}

// IsModel reports whether an argument is the path of a model and no command or option.
func IsModel(arg string) bool {
	return !strings.HasPrefix(arg, "-") && strings.EqualFold(filepath.Ext(arg), ".gguf")
}

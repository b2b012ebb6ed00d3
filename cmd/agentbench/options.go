package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// errDone ends a subcommand that has printed its page of help.
var errDone = errors.New("help was printed")

// option is one flag of a subcommand.
type option struct {
	name  string // words joined by "-"
	group string // heading on the help page
	arg   string // placeholder on the help page; "" for a switch
	usage string // one or two sentences
	value value
}

// command is a subcommand's command line.
type command struct {
	name    string
	page    string // of help, before the options
	tail    string // and after them
	groups  []string
	options []option
	files   bool // it takes names of files, too
}

// parse sets the options and returns the names of those that were given, and the
// files. With --help it prints the page and returns errDone.
func (c *command) parse(args []string, stdout io.Writer) (given map[string]bool, files []string, err error) {
	texts := map[string]string{}
	fs := pflag.NewFlagSet("agentbench "+c.name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	help := fs.BoolP("help", "h", false, "")
	for _, o := range c.options {
		flag := fs.VarPF(&recorder{texts, o}, o.name, "", "")
		if _, isSwitch := o.value.(toggle); isSwitch {
			flag.NoOptDefVal = "true"
		}
	}
	if err := fs.Parse(args); err != nil {
		var missing *pflag.NotExistError
		if errors.As(err, &missing) {
			return nil, nil, fmt.Errorf("option --%s is unknown; agentbench %s --help lists the options", missing.GetSpecifiedName(), c.name)
		}
		return nil, nil, fmt.Errorf("%w; agentbench %s --help lists the options", err, c.name)
	}
	if *help {
		c.writeHelp(stdout)
		return nil, nil, errDone
	}
	if rest := fs.Args(); len(rest) > 0 && !c.files {
		return nil, nil, fmt.Errorf("unexpected argument %q: options begin with --; agentbench %s --help lists them", rest[0], c.name)
	}
	given = map[string]bool{}
	for _, o := range c.options {
		if s, ok := texts[o.name]; ok {
			given[o.name] = true
			if err := o.value.set(s); err != nil {
				return nil, nil, fmt.Errorf("--%s: %w", o.name, err)
			}
		}
	}
	return given, fs.Args(), nil
}

// recorder is a pflag.Value that notes what was given.
type recorder struct {
	given  map[string]string
	option option
}

func (r *recorder) String() string     { return "" }
func (r *recorder) Type() string       { return r.option.arg }
func (r *recorder) Set(s string) error { r.given[r.option.name] = s; return nil }

// firstGiven is the first of some options that was given, in the order of the
// command; "" when none was.
func firstGiven(opts []option, given map[string]bool) string {
	for _, o := range opts {
		if given[o.name] {
			return o.name
		}
	}
	return ""
}

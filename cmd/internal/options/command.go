package options

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// ErrDone ends a command that printed its help page or its version. It is not a failure.
var ErrDone = errors.New("the page was printed")

// Option is one setting: a flag and, where the command has them, an environment variable
// and a key of the configuration file.
type Option struct {
	Name  string // of the flag: words joined by "-"
	Group string // heading on the help page; "": on no page, for developers
	Arg   string // placeholder on the help page; "" for a Bool
	Usage string // one or two sentences
	Value Value
}

// In makes options of a group.
func In(group string) func(name, arg, usage string, value Value) Option {
	return func(name, arg, usage string, value Value) Option { return Option{name, group, arg, usage, value} }
}

// Key is the option's key in the configuration file.
func (o Option) Key() string { return strings.ReplaceAll(o.Name, "-", "_") }

// Command is a command line: its options and its help page. Groups of options appear in
// the order of their first options.
type Command struct {
	Name    string // as a user types it, such as "household eval"
	Version string // what --version prints; "" without that flag
	Intro   string // the help page before the options
	Outro   string // and after them
	Options []Option

	Arguments bool     // other arguments than options are allowed
	Words     []string // that the first of them may be, for completion; none: any text
	Env       string   // prefix of the environment variables; "" without them
	File      *File    // nil without a configuration file
	// Hints say what to do about settings of other programs, former options and kinds of files, by key or ending.
	Hints map[string]string
}

// Origins say where each option's value came from, by option name. An option that nobody
// set is absent.
type Origins map[string]string

// Name is an option's name in an error, the way its user wrote it. The name of one of Settings is that of
// its flag and its key, with a space between them.
func (o Origins) Name(option string) string {
	flag, key, _ := strings.Cut(option, " ")
	from, ok := o[flag]
	if !ok {
		return "--" + option
	}
	return strings.TrimSpace(from + " " + key)
}

// Parse sets the options from their layers, each winning over the one before: configuration file, environment, flags.
// It returns where the values came from and the other arguments. --help and --version print to stdout: ErrDone.
func (c *Command) Parse(args []string, lookupEnv func(string) (string, bool), stdout io.Writer) (Origins, []string, error) {
	flags, rest, err := c.flags(args, stdout)
	if err != nil {
		return nil, nil, err
	}
	from, variables := Origins{}, map[string]string{}
	if c.Env != "" {
		for _, o := range c.Options {
			if s, ok := lookupEnv(c.Variable(o)); ok && s != "" && !isServiceLink(c.Variable(o), s) {
				variables[o.Name] = s
			}
		}
	}
	if c.File != nil {
		path, as := variables[c.File.Option], c.Variable(Option{Name: c.File.Option})
		if s, ok := flags[c.File.Option]; ok {
			path, as = s, "--"+c.File.Option
		}
		if path != "" {
			if err := c.applyFile(path, as, from); err != nil {
				return from, nil, err
			}
		}
	}
	for _, o := range c.Options {
		for _, layer := range []struct {
			texts map[string]string
			as    string
		}{{variables, c.Variable(o)}, {flags, "--" + o.Name}} {
			text, given := layer.texts[o.Name]
			if !given {
				continue
			}
			if err := o.Value.Set(text); err != nil {
				return from, nil, fmt.Errorf("%s: %w", layer.as, err)
			}
			from[o.Name] = layer.as
		}
	}
	return from, rest, nil
}

// Variable is the environment variable of an option.
func (c *Command) Variable(o Option) string { return c.Env + strings.ToUpper(o.Key()) }

// serviceLink matches the variables that Kubernetes sets in a pod for each Service: for one named
// agentd, AGENTD_SERVICE_HOST and AGENTD_PORT=tcp://10.96.7.1:8888 among others.
var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)=|` +
	`_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=|_PORT=(tcp|udp|sctp)://`)

func isServiceLink(name, value string) bool { return serviceLink.MatchString(name + "=" + value) }

// UnknownVariables are warnings about the variables of an environment that have the prefix of the
// command's and belong to no option, one sentence each.
func (c *Command) UnknownVariables(environ []string) (warnings []string) {
	var known []string
	for _, o := range c.Options {
		known = append(known, c.Variable(o))
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, c.Env) && !slices.Contains(known, name) && !isServiceLink(name, value) {
			warnings = append(warnings, fmt.Sprintf("variable %s %s", name, c.advice(name, known, func(option string) string { return c.Env + strings.ToUpper(strings.ReplaceAll(option, "-", "_")) })))
		}
	}
	return warnings
}

// flags returns the texts of the flags given, by option name, and the other arguments.
// Options keep their values for now: the layers below come first.
func (c *Command) flags(args []string, stdout io.Writer) (given map[string]string, rest []string, err error) {
	given = map[string]string{}
	fs := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	help := fs.BoolP("help", "h", false, "")
	version := new(bool)
	if c.Version != "" {
		version = fs.Bool("version", false, "")
	}
	for _, o := range c.Options {
		fs.Func(o.Name, "", func(s string) error { return o.record(given, s) })
		if o.Value.form == asBool {
			fs.Lookup(o.Name).NoOptDefVal = "true"
		}
	}
	if err := fs.Parse(args); err != nil {
		if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
			name, as := missing.GetSpecifiedName(), "--"
			if short := missing.GetSpecifiedShortnames(); short != "" {
				name, as = short, "-"
			}
			flag := func(option string) string { return "--" + option }
			return nil, nil, fmt.Errorf("option %s%s %s", as, name, c.advice(name, names(c.Options), flag))
		}
		return nil, nil, fmt.Errorf("%w; %s --help lists the options", err, c.Name)
	}
	if *help {
		c.WriteHelp(stdout)
		return nil, nil, ErrDone
	}
	if *version {
		fmt.Fprintln(stdout, c.Version)
		return nil, nil, ErrDone
	}
	if rest = fs.Args(); len(rest) > 0 && !c.Arguments {
		advice, before := "options begin with --", args[max(0, slices.Index(args, rest[0])-1)]
		if f := fs.Lookup(strings.TrimPrefix(before, "--")); f != nil && f.NoOptDefVal != "" && before != rest[0] {
			advice = "write --" + f.Name + "=" + rest[0]
		}
		advice = cmp.Or(c.Hints[strings.ToLower(filepath.Ext(rest[0]))], advice)
		return nil, nil, fmt.Errorf("unexpected argument %q: %s; %s --help lists the options", rest[0], advice, c.Name)
	}
	return given, rest, nil
}

func names(list []Option) (names []string) {
	for _, o := range list {
		names = append(names, o.Name)
	}
	return names
}

// record keeps the last text of a flag, or all of a list.
func (o Option) record(given map[string]string, s string) error {
	before, again := given[o.Name]
	if s == "" && (o.Value.isList() || o.Value.secret) { // as from a variable of a shell that is not set
		return errors.New("got an empty list or file; leave the option out for none")
	}
	if again && o.Value.isList() {
		s = before + "," + s
	}
	given[o.Name] = s
	return nil
}

// flagInText is an option that a text names.
var flagInText = regexp.MustCompile(`--[a-z][a-z-]*[a-z]`)

// advice says what to do about an unknown setting: the hint about one of another program or
// about a former one, else the option that has it as a key, else the closest of the names, else where
// they are listed. An option is spelled as in the layer of the setting.
func (c *Command) advice(name string, names []string, spelled func(option string) string) string {
	key := strings.ReplaceAll(name, "-", "_")
	if hint, ok := c.Hints[strings.ToLower(strings.TrimPrefix(key, c.Env))]; ok {
		return "is not an option of " + c.Name + ": " +
			flagInText.ReplaceAllStringFunc(hint, func(flag string) string { return spelled(strings.TrimPrefix(flag, "--")) })
	}
	for _, o := range c.Options {
		if s, err := o.Value.setting(name); err == nil {
			return fmt.Sprintf("is a key of --%s: write --%s %s=VALUE", o.Name, o.Name, s.Name)
		}
	}
	best, distance := "", min(3, len(key)) // farther than two edits, or another word of one or two letters, is not a typing error
	for _, k := range names {
		if d := editDistance(key, strings.ReplaceAll(k, "-", "_")); d < distance {
			best, distance = k, d
		}
	}
	if best != "" {
		if slices.ContainsFunc(c.Options, func(o Option) bool { return o.Name == best }) {
			best = spelled(best)
		}
		return "is unknown; did you mean " + best + "?"
	}
	return "is unknown; " + c.Name + " --help lists the options"
}

// editDistance is the Levenshtein distance of two short names.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

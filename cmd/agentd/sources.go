package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/pflag"
)

// errHelp and errVersion ask for a page instead of a server; they are no
// failures.
var (
	errHelp    = errors.New("help requested")
	errVersion = errors.New("version requested")
)

// origins says where each option's value came from, by option name. An option
// that nobody set is absent.
type origins map[string]string

// describe names an option in an error the way its user wrote it.
func (o origins) describe(name string) string {
	if from, ok := o[name]; ok {
		return from
	}
	return "--" + name
}

// loadConfig fills a Config from its layers, each winning over the one before:
// defaults, the configuration file, AGENTD_* variables, flags. The file itself
// is named by --config or AGENTD_CONFIG.
func loadConfig(args []string, lookupEnv func(string) (string, bool)) (Config, origins, error) {
	c := defaultConfig()
	opts := options(&c)
	from := origins{}

	flags, err := parseFlags(opts, args)
	if err != nil {
		return c, from, err
	}
	variables := environment(opts, lookupEnv)
	file := variables["config"]
	if f, ok := flags["config"]; ok {
		file = f
	}
	if file != "" {
		if err := applyFile(opts, file, from); err != nil {
			return c, from, err
		}
	}
	for _, o := range opts {
		if err := applyText(o, variables, o.env(), from); err != nil {
			return c, from, err
		}
		if err := applyText(o, flags, "--"+o.name, from); err != nil {
			return c, from, err
		}
	}
	return c, from, c.Validate(from)
}

// applyText sets o from one layer of texts, if that layer names it.
func applyText(o option, layer map[string]string, as string, from origins) error {
	s, ok := layer[o.name]
	if !ok {
		return nil
	}
	if err := o.value.set(s); err != nil {
		return fmt.Errorf("%s: %w", as, err)
	}
	from[o.name] = as
	return nil
}

// loadFlags sets the options of a subcommand that has neither configuration file
// nor variables, and says which were given.
func loadFlags(command string, opts []option, args []string) (origins, error) {
	flags, err := parseFlags(opts, args)
	switch {
	case errors.Is(err, errHelp), errors.Is(err, errVersion):
		return nil, err
	case err != nil: // it names the server's page of help
		return nil, errors.New(strings.ReplaceAll(err.Error(), "agentd --help", "agentd "+command+" --help"))
	}
	from := origins{}
	for _, o := range opts {
		if err := applyText(o, flags, "--"+o.name, from); err != nil {
			return nil, err
		}
	}
	return from, nil
}

// parseFlags returns the texts of the flags given, by option name. Options keep
// their values for now: the layers below come first.
func parseFlags(opts []option, args []string) (map[string]string, error) {
	given := map[string]string{}
	fs := pflag.NewFlagSet("agentd", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	help := fs.BoolP("help", "h", false, "")
	showVersion := fs.Bool("version", false, "")
	known := make([]string, 0, len(opts))
	for _, o := range opts {
		known = append(known, o.name)
		flag := fs.VarPF(&recorder{given: given, option: o}, o.name, "", "")
		if _, isSwitch := o.value.(toggle); isSwitch {
			flag.NoOptDefVal = "true"
		}
	}
	if err := fs.Parse(args); err != nil {
		var missing *pflag.NotExistError
		if errors.As(err, &missing) {
			name := missing.GetSpecifiedName()
			return nil, fmt.Errorf("option --%s %s", name, advice(name, known))
		}
		return nil, fmt.Errorf("%w; agentd --help lists the options", err)
	}
	if *help {
		return nil, errHelp
	}
	if *showVersion {
		return nil, errVersion
	}
	if rest := fs.Args(); len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q: options begin with --; agentd --help lists them", rest[0])
	}
	return given, nil
}

// recorder is a pflag.Value that notes what was given.
type recorder struct {
	given  map[string]string
	option option
}

func (r *recorder) String() string { return "" }
func (r *recorder) Type() string   { return r.option.arg }

// Set notes the last text given, or all of a list.
func (r *recorder) Set(s string) error {
	before, again := r.given[r.option.name]
	if _, isList := r.option.value.(list); isList && again {
		s = before + "," + s
	}
	r.given[r.option.name] = s
	return nil
}

// environment returns the AGENTD_* variables that are set and not empty, by
// option name.
func environment(opts []option, lookup func(string) (string, bool)) map[string]string {
	found := map[string]string{}
	for _, o := range opts {
		if s, ok := lookup(o.env()); ok && s != "" {
			found[o.name] = s
		}
	}
	return found
}

// unknownVariables lists AGENTD_* variables that no option has. They are
// warned about, not refused: environments are shared (AGENTD_PORT_8888_TCP is
// what container platforms set for a service called agentd).
func unknownVariables(environ []string) []string {
	known := map[string]bool{}
	for _, o := range options(new(Config)) {
		known[o.env()] = true
	}
	var unknown []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "AGENTD_") && !known[name] {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// applyFile sets options from a JSON configuration file: top-level keys by
// their names, and the model's either there or inside a "model" object.
func applyFile(opts []option, path string, from origins) error {
	raw, err := readLimited(path, configFileLimit)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	byKey, byInner := map[string]option{}, map[string]option{}
	var keys, inners []string
	for _, o := range opts {
		if o.name == "config" {
			continue // a file that names another file is not followed
		}
		byKey[o.key()] = o
		keys = append(keys, o.key())
		if o.inner != "" {
			byInner[o.inner] = o
			inners = append(inners, o.inner)
		}
	}
	where := "configuration file " + path
	set := func(o option, key string, v jsontext.Value) error {
		as := fmt.Sprintf("%s: %s", where, key)
		if earlier, twice := from[o.name]; twice {
			return fmt.Errorf("%s: the same option was already given as %q; keep one", as, strings.TrimPrefix(earlier, where+": "))
		}
		if v.Kind() == 'n' && nullable[o.name] {
			return nil
		}
		if err := o.value.setJSON(v); err != nil {
			return fmt.Errorf("%s: %w", as, err)
		}
		from[o.name] = as
		return nil
	}
	return eachMember(raw, where, func(key string, v jsontext.Value) error {
		if key == "model" && v.Kind() == '{' {
			return eachMember(v, where+": model", func(key string, v jsontext.Value) error {
				o, ok := byInner[key]
				if !ok {
					return fmt.Errorf("%s: model.%s %s", where, key, advice(key, inners))
				}
				return set(o, "model."+key, v)
			})
		}
		o, ok := byKey[key]
		if !ok {
			return fmt.Errorf("%s: %s %s", where, key, advice(key, keys))
		}
		return set(o, key, v)
	})
}

// eachMember calls f for every member of the JSON object raw. Duplicate keys,
// trailing data and anything but an object are errors.
func eachMember(raw []byte, where string, f func(key string, v jsontext.Value) error) error {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		return fmt.Errorf("%s: want one JSON object", where)
	}
	if _, err := dec.ReadToken(); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		key := name.String() // before the next read, which reuses the buffer
		v, err := dec.ReadValue()
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if err := f(key, v.Clone()); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: there is more after the closing brace", where)
	}
	return nil
}

// readLimited reads a regular file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, limit)
	}
	return raw, nil
}

// Package check is the command that judges an agent server.
package check

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	kit "agentd/cmd/internal/check"
	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/internal/base/version"
)

const (
	// maxExpect bounds the file of known failures in bytes.
	maxExpect = 1 << 20
	// maxRoots bounds the file of authorities in bytes.
	maxRoots = 1 << 20
	// maxOnly bounds the list of rules.
	maxOnly = 1000
)

// Config is all settings of the command.
type Config struct {
	Rules     kit.Config
	Expect    string
	TokenFile string
	CA        string
	Format    string
	JUnit     string
}

// DefaultConfig applies when a user sets nothing.
func DefaultConfig() *Config {
	return &Config{Rules: kit.Config{Level: kit.May, Coaching: "auto"}, Format: "text"}
}

const (
	intro = `agentd check judges an agent server of protocol 2.0. It needs no good model.

Usage
  agentd check URL [options]

Examples
  agentd check http://127.0.0.1:8888
  agentd check http://127.0.0.1:8888 --only memory,session/put-other
  agentd check https://agents.example.org --token-file token --expect known.yaml --junit check.xml
`
	outro = `Exit status: 0; 1 when a rule of level must failed, or when a known failure did not fail; 2 for wrong usage;
3 when the server can't be reached, or for a fault of the check itself. docs/check.md has more.
`
)

// Command is the command line that fills c.
func (c *Config) Command() *options.Command {
	what, report := options.In("Rules"), options.In("Report")
	return &options.Command{
		Name: "agentd check", Version: version.Line("agentd"), Intro: intro, Outro: outro, Arguments: true,
		Options: []options.Option{
			what("level", "LEVEL", "The last level to judge: must, should or may.", options.Choice(&c.Rules.Level, kit.Levels, nil)),
			what("only", "LIST", "Ids of rules, or their areas, such as memory.", options.List(&c.Rules.Only, maxOnly)),
			what("coaching", "MODE", "Judge coaching: on, off, or auto for what the server declares.",
				options.Choice(&c.Rules.Coaching, []string{"auto", "on", "off"}, nil)),
			what("load", "N", "Clients that ask while the rules run.", options.Int(&c.Rules.Load, 0, kit.MaxLoad)),
			what("token-file", "FILE", "File whose first token is sent to the server.", options.SecretFile(&c.TokenFile)),
			what("ca", "FILE", "Certificates, in PEM, of the authorities that sign the server's certificate.", options.Text(&c.CA)),
			what("expect", "FILE", "Known failures, in YAML: ids of rules with reasons. An entry that does not fail is a failure.", options.Text(&c.Expect)),
			report("list", "", "List the rules instead.", options.Bool(&c.Rules.List)),
			report("format", "FORMAT", "text or json.", options.Choice(&c.Format, []string{"text", "json"}, nil)),
			report("junit", "FILE", "Also write a report for CI, in JUnit's format.", options.Text(&c.JUnit)),
		},
	}
}

// exit is an error with the program's exit status.
type exit struct {
	error
	status int
}

// ExitStatus is the program's.
func (e *exit) ExitStatus() int { return e.status }

// Unwrap is the error.
func (e *exit) Unwrap() error { return e.error }

const (
	usage = 2
	fault = 3
)

// parse makes a Config from defaults and flags.
func parse(args []string, stdout, stderr io.Writer) (*Config, error) {
	c := DefaultConfig()
	_, rest, err := c.Command().Parse(args, os.LookupEnv, stdout)
	if err != nil {
		return nil, err
	}
	cli.WarnOfSecrets(stderr, c.Command())
	if c.TokenFile != "" {
		tokens, err := cli.ReadTokens(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		c.Rules.Token = tokens.List[0]
	}
	if c.CA != "" {
		text, err := options.ReadFile(c.CA, maxRoots)
		roots := x509.NewCertPool()
		if err == nil && !roots.AppendCertsFromPEM(text) {
			err = errors.New("it has no certificate in PEM")
		}
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		c.Rules.Roots, c.Rules.RootFile = roots, c.CA
	}
	if c.Expect != "" {
		text, err := options.ReadFile(c.Expect, maxExpect)
		if err == nil {
			err = yaml.Unmarshal(text, &c.Rules.Expect)
		}
		if err != nil {
			return nil, fmt.Errorf("--expect: %w; want lines such as bound/depth: why it fails", err)
		}
	}
	switch {
	case c.Rules.List && (len(rest) > 0 || c.JUnit != ""):
		return nil, errors.New("--list asks no server; leave out the URL and --junit")
	case c.Rules.List:
	case len(rest) != 1:
		return nil, errors.New("name the server by one URL, such as http://127.0.0.1:8888")
	default:
		if err := checkURL(rest[0]); err != nil {
			return nil, fmt.Errorf("%w; want one such as http://127.0.0.1:8888", err)
		}
		c.Rules.URL = rest[0]
	}
	return c, nil
}

// checkURL refuses what is not the URL of a server, to which rules append their paths.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("the URL can't be read: %w", errors.Unwrap(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the URL does not begin with http:// or https://")
	case u.User != nil:
		return errors.New("the URL has a name or password; use --token-file")
	case u.Hostname() == "":
		return errors.New("the URL names no host")
	case strings.ContainsAny(text, "?#"):
		return errors.New("the URL has a query or fragment, to which no path can be appended; a token goes into --token-file")
	case u.Port() != "":
		if n, err := strconv.Atoi(u.Port()); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("the URL's port %s is not between 1 and 65535", u.Port())
		}
	}
	return nil
}

// Run is the command.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stdout, stderr)
	if err != nil {
		return &exit{err, usage}
	}
	var junit *os.File
	if c.JUnit != "" {
		if junit, err = os.Create(c.JUnit); err != nil {
			return &exit{fmt.Errorf("--junit: %w", err), usage}
		}
		defer junit.Close()
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	line := func(r *kit.Result) {
		if c.Format == "text" {
			fmt.Fprint(stdout, r.Line())
		}
	}
	report, err := kit.Run(ctx, c.Rules, line)
	if report != nil {
		err = errors.Join(err, c.write(report, stdout, junit))
	}
	switch {
	case errors.Is(err, kit.ErrUnknownRule):
		return &exit{fmt.Errorf("%w; agentd check --list has all", err), usage}
	case err != nil:
		return &exit{err, fault}
	}
	if n := report.Count((*kit.Result).Breaks); n > 0 {
		return &exit{fmt.Errorf("%d rules of level must failed, or did not fail as expected", n), 1}
	}
	return nil
}

// write writes the report where it was asked for. junit may be nil.
func (c *Config) write(r *kit.Report, stdout io.Writer, junit *os.File) (err error) {
	switch {
	case c.Format == "json":
		err = r.WriteJSON(stdout)
	case !c.Rules.List:
		_, err = fmt.Fprintln(stdout, r.Summary())
	}
	if junit == nil || err != nil {
		return err
	}
	return errors.Join(r.WriteJUnit(junit), junit.Close())
}

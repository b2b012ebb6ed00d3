package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentd/console"
	"agentd/protocol/client"

	"github.com/go-json-experiment/json/jsontext"
)

// consoleConfig is everything agentd console can be told; see consoleOptions.
type consoleConfig struct {
	Host           string
	Port           int
	PublicHost     string
	AgentsFrom     string
	TLSCert        string
	TLSKey         string
	AuthTokenFile  string
	Agent          string
	AgentTokenFile string
	DataDir        string
	Claim          time.Duration
	Keep           time.Duration
	LogLevel       string
	LogFormat      string
}

func defaultConsoleConfig() consoleConfig {
	return consoleConfig{
		Host:      "127.0.0.1",
		Port:      defaultConsolePort,
		DataDir:   consoleDataDir(),
		Claim:     console.DefaultClaim,
		Keep:      console.DefaultKeep,
		LogLevel:  "info",
		LogFormat: "console",
	}
}

const (
	// defaultConsolePort is beside the server's, for both on one machine.
	defaultConsolePort = 8890
	// minClaim is long enough for a page to renew its claim over a bad network.
	minClaim = 10 * time.Second
	// minKeep lets an agent that lost its connection come back for its answer.
	minKeep = time.Minute
	// maxKeep bounds --keep; more is a unit mistake.
	maxKeep = 10 * 365 * 24 * time.Hour
)

// consoleDataDir is where the tasks lie unless --data-dir says otherwise; ""
// when the user has no home.
func consoleDataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agentd", "console")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "share", "agentd", "console")
}

// Headings of the console's help page, in its order.
const (
	groupConsoleHTTP  = "Page and tasks"
	groupConsoleAgent = "Candidates"
)

// consoleOptions binds every option of the console to its field of c. They are
// flags only: the console has no configuration file, and AGENTD_* variables are
// the server's.
func consoleOptions(c *consoleConfig) []option {
	return []option{
		{"host", "", groupConsoleHTTP, "ADDRESS", "Address to listen on, for people and agents. 0.0.0.0 opens the console to the network: think of --auth-token-file and --agents-from.", text{&c.Host}},
		{"port", "", groupConsoleHTTP, "N", "Port to listen on. 0 takes a free one and logs it.", integer{p: &c.Port, max: maxPort}},
		{"public-host", "", groupConsoleHTTP, "NAMES", "Names under which people reach the page, separated by commas. localhost and IP addresses always work; other names are refused, so that a foreign page cannot pass for this one.", text{&c.PublicHost}},
		{"agents-from", "", groupConsoleHTTP, "LIST", "Addresses and networks that agents may post tasks from, such as 10.0.0.5,10.1.0.0/16. Without it: from everywhere.", text{&c.AgentsFrom}},
		{"tls-cert", "", groupConsoleHTTP, "FILE", "PEM certificate chain; with --tls-key the console speaks HTTPS only.", text{&c.TLSCert}},
		{"tls-key", "", groupConsoleHTTP, "FILE", "PEM private key of --tls-cert.", text{&c.TLSKey}},
		{"auth-token-file", "", groupConsoleHTTP, "FILE", "Tokens that let people in, one a line, of at least 16 characters; # begins a comment line. Agents need none: the protocol gives them no way to send one.", text{&c.AuthTokenFile}},
		{"data-dir", "", groupConsoleHTTP, "DIR", "Where tasks, drafts and answers are kept.", text{&c.DataDir}},
		{"claim", "", groupConsoleHTTP, "TIME", "How long a person's claim on a task holds when their page no longer renews it.", duration{&c.Claim}},
		{"keep", "", groupConsoleHTTP, "TIME", "How long answered and withdrawn tasks are kept, and open ones whose agent is gone.", retention{&c.Keep}},

		{"agent", "", groupConsoleAgent, "URL", "Agent server to ask what it would decide, such as http://127.0.0.1:8888. Without it people get no candidates.", text{&c.Agent}},
		{"agent-token-file", "", groupConsoleAgent, "FILE", "File whose first token is sent to --agent.", text{&c.AgentTokenFile}},

		{"log-level", "", groupLogs, "LEVEL", "trace, debug, info, warn or error.", choice{&c.LogLevel, []string{"trace", "debug", "info", "warn", "error"}, map[string]string{"warning": "warn"}}},
		{"log-format", "", groupLogs, "FORMAT", "console for people, json for machines.", choice{&c.LogFormat, []string{"console", "json"}, nil}},
	}
}

// retention is a time span that may be longer than those of the server.
type retention struct{ p *time.Duration }

func (r retention) String() string { return r.p.String() }
func (r retention) set(s string) error {
	x, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil || x < minKeep || x > maxKeep {
		return fmt.Errorf("got %q, want a time span from %s to %s such as 168h", s, minKeep, maxKeep)
	}
	*r.p = x
	return nil
}
func (r retention) setJSON(v jsontext.Value) error {
	s, err := jsonString(v)
	if err == nil {
		err = r.set(s)
	}
	return err
}

// loadConsoleConfig fills a consoleConfig from defaults and flags.
func loadConsoleConfig(args []string) (consoleConfig, error) {
	c := defaultConsoleConfig()
	if _, err := loadFlags("console", consoleOptions(&c), args); err != nil {
		return c, err
	}
	return c, c.validate()
}

// validate checks what single values cannot show. All problems are reported.
func (c *consoleConfig) validate() error {
	var problems []error
	fail := func(option, format string, args ...any) {
		problems = append(problems, fmt.Errorf("--%s: %w", option, fmt.Errorf(format, args...)))
	}
	if c.Host != "localhost" {
		if _, err := netip.ParseAddr(c.Host); err != nil {
			fail("host", "got %q, want an IP address such as 127.0.0.1, 0.0.0.0 or ::1, or localhost", c.Host)
		}
	}
	for _, name := range splitList(c.PublicHost) {
		if strings.ContainsAny(name, ":/ ") {
			fail("public-host", "got %q, want a name without scheme and port, such as console.example.org", name)
		}
	}
	if _, err := readPrefixes(c.AgentsFrom); err != nil {
		fail("agents-from", "%w", err)
	}
	switch {
	case c.TLSCert != "" && c.TLSKey == "":
		fail("tls-cert", "needs --tls-key too")
	case c.TLSKey != "" && c.TLSCert == "":
		fail("tls-key", "needs --tls-cert too")
	}
	if c.DataDir == "" {
		fail("data-dir", "is empty and there is no home directory; name a directory")
	} else if info, err := os.Stat(c.DataDir); err == nil && !info.IsDir() {
		fail("data-dir", "%s is not a directory", c.DataDir)
	}
	if c.Claim < minClaim {
		fail("claim", "%s is too short for a page to renew it in time; give at least %s", c.Claim, minClaim)
	}
	for option, file := range map[string]string{"auth-token-file": c.AuthTokenFile, "agent-token-file": c.AgentTokenFile} {
		if file == "" {
			continue
		}
		if _, err := readTokens(file); err != nil {
			fail(option, "%w", err)
		}
	}
	if c.Agent != "" {
		if _, err := client.New(c.Agent); err != nil {
			fail("agent", "%w", err)
		}
	} else if c.AgentTokenFile != "" {
		fail("agent-token-file", "is for --agent, which is missing")
	}
	return errors.Join(problems...)
}

// writeConsoleHelp prints the page of agentd console --help.
func writeConsoleHelp(w io.Writer) {
	c := defaultConsoleConfig()
	opts := consoleOptions(&c)
	fmt.Fprint(w, `agentd console serves a web page on which people coach: agents post the steps that went
wrong, a person corrects them, and the agent gets the answer. docs/console.md has the rest.

Usage
  agentd console [options]

Examples
  agentd console --agent http://127.0.0.1:8888
      then open http://127.0.0.1:8890, and configure a coaching session with
      {"provider": "human", "endpoint": "http://127.0.0.1:8890"}
  agentd console --host 0.0.0.0 --public-host console.example.org --auth-token-file tokens
`)
	writeOptions(w, opts, groupConsoleHTTP, groupConsoleAgent, groupLogs)
	fmt.Fprint(w, `
Signals
  SIGTERM or SIGINT stops the console and exits with 0. Nothing is lost: agents that wait are
  told to post again, and find their tasks when the console is back. A second signal cuts
  answers that are on their way.
`)
}

package console

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	web "agentd/coaching/console"
	"agentd/internal/base/version"
	"agentd/protocol/client"
)

// Config is all settings of the command.
type Config struct {
	// Console is the page and its tasks. The command sets what no option fills.
	Console web.Options
	HTTP    cli.HTTP
	Log     cli.Log
	Agent   cli.Remote // that is asked for candidates; without a URL none
	DataDir string
}

// DefaultConfig applies when a user sets nothing.
func DefaultConfig() *Config {
	return &Config{
		Console: web.Options{Claim: web.DefaultClaim, Keep: web.DefaultKeep},
		HTTP:    cli.HTTP{Host: "127.0.0.1", Port: defaultPort},
		Log:     cli.Log{Level: "info", Format: "console"},
		DataDir: dataDir(),
	}
}

const (
	// defaultPort is beside the server's, for both on one machine.
	defaultPort = 8890
	// minClaim is long enough for a page to renew its claim over a bad network.
	minClaim = 10 * time.Second
	// maxClaim is more than a person works on a task; more is a unit mistake.
	maxClaim = 7 * 24 * time.Hour
	// minKeep lets an agent that lost its connection come back for its answer.
	minKeep = time.Minute
	// maxKeep bounds --keep; more is a unit mistake.
	maxKeep = 10 * 365 * 24 * time.Hour
	// maxList bounds the lists of hosts and networks.
	maxList = 1024
)

// dataDir is where the tasks lie unless --data-dir says otherwise; ""
// when the user has no home.
func dataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agentd", "console")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "share", "agentd", "console")
}

// Command is the command line that fills c. The console has no configuration file, and
// AGENTD_* variables are the server's.
func (c *Config) Command() *options.Command {
	option, o := options.In("Page and tasks"), &c.Console
	agent := options.In("Candidates")
	return &options.Command{
		Name: "agentd console", Version: version.Line("agentd"), Intro: intro, Outro: outro,
		Options: slices.Concat(c.HTTP.Options("Page and tasks",
			"Address to listen on, for people and agents. 0.0.0.0 opens the console to the network; consider --auth-token-file and --agents-from.",
			"Tokens of people, one a line, of at least 16 characters; # begins a comment line. A name before a token, as agentd has it, is left out. Agents need none.",
		), []options.Option{
			option("public-host", "NAMES", "Names under which people reach the page, separated by commas. localhost and IP addresses always work; other names are refused.", options.List(&o.PublicHosts, maxList)),
			option("agents-from", "LIST", "Addresses and networks that agents may post tasks from, such as 10.0.0.5,10.1.0.0/16. Without it: from everywhere.", options.ListOf(&o.AgentsFrom, maxList, parsePrefix, netip.Prefix.String)),
			option("data-dir", "DIR", "Directory of tasks, drafts and answers.", options.Text(&c.DataDir)),
			option("claim", "TIME", "How long a claim on a task lasts when its page no longer renews it.", options.Duration(&o.Claim, minClaim, maxClaim)),
			option("keep", "TIME", "How long the console keeps answered and withdrawn tasks, and open ones whose agent is gone.", options.Duration(&o.Keep, minKeep, maxKeep)),
			agent("agent", "URL", "Agent server to ask what it would decide, such as http://127.0.0.1:8888. Without it people get no candidates.", options.Text(&c.Agent.URL)),
			agent("agent-token-file", "FILE", "File whose first token is sent to --agent.", options.SecretFile(&c.Agent.TokenFile)),
		}, c.Log.Options()),
	}
}

// parsePrefix reads an address or a network.
func parsePrefix(s string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return prefix, fmt.Errorf("got %q, want addresses and networks such as 10.0.0.5 or 10.0.0.0/8", s)
	}
	return prefix, nil
}

// parse makes a Config from defaults and flags.
func parse(args []string, stdout io.Writer) (*Config, error) {
	c := DefaultConfig()
	from, _, err := c.Command().Parse(args, os.LookupEnv, stdout)
	if err != nil {
		return c, err
	}
	return c, c.validate(from)
}

// validate checks what single values cannot show. It reports all problems.
func (c *Config) validate(from options.Origins) error {
	p := options.Problems{From: from}
	c.HTTP.Check(&p)
	for _, name := range c.Console.PublicHosts {
		if strings.ContainsAny(name, ":/ ") {
			p.Add("public-host", "got %q, want a name without scheme and port, such as console.example.org", name)
		}
	}
	if c.DataDir == "" {
		p.Add("data-dir", "is empty and there is no home directory; name a directory")
	} else if info, err := os.Stat(c.DataDir); err == nil && !info.IsDir() {
		p.Add("data-dir", "%s is not a directory", c.DataDir)
	}
	if c.Agent.TokenFile != "" {
		if _, err := cli.ReadTokens(c.Agent.TokenFile); err != nil {
			p.Add("agent-token-file", "%w", err)
		}
	}
	if c.Agent.URL != "" {
		if _, err := client.New(c.Agent.URL); err != nil {
			p.Add("agent", "%w", err)
		}
	} else if c.Agent.TokenFile != "" {
		p.Add("agent-token-file", "is for --agent, which is missing")
	}
	return p.Err()
}

// intro is the help page before the options, outro after them.
const (
	intro = `agentd console serves a web page on which people coach: agents post the steps that went
wrong, a person corrects them, and the agent gets the answer. docs/console.md has the rest.

Usage
  agentd console [options]

Examples
  agentd console --agent http://127.0.0.1:8888
      then open http://127.0.0.1:8890, and configure a coaching session with
      {"provider": "human", "endpoint": "http://127.0.0.1:8890"}
  agentd console --host 0.0.0.0 --public-host console.example.org --auth-token-file tokens
`
	outro = `Signals
  SIGTERM, SIGINT or SIGHUP stops the console and exits with 0. Nothing is lost: agents that
  wait are asked to post again, and find their tasks when the console is back. A second signal
  ends it at once.
`
)

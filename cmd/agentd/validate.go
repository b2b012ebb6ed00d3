package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"agentd/coaching"
	"agentd/coaching/egress"
)

// Validate checks what single values cannot show: files that must exist and
// options that need or exclude each other. All problems are reported, each
// under the name its user gave it (from may be nil).
func (c *Config) Validate(from origins) error {
	var problems []error
	fail := func(option, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %w", from.describe(option), fmt.Errorf(format, args...)))
	}

	if c.Model != "" {
		if err := regularFile(c.Model); err != nil {
			fail("model", "%w; name a GGUF file", err)
		}
	}
	if strings.TrimSpace(c.DefaultRobot) == "" {
		fail("default-robot", "is empty; name a robot, such as robot")
	}
	if c.ContextLength > 0 && c.MaxNewTokens >= c.ContextLength {
		fail("max-new-tokens", "%d leaves no room for a prompt in --context-length %d; lower the one or raise the other", c.MaxNewTokens, c.ContextLength)
	}
	if c.ContextLength > 0 && c.FixedTokens >= c.ContextLength {
		fail("fixed-tokens", "%d leaves no room for a prompt in --context-length %d; lower the one or raise the other", c.FixedTokens, c.ContextLength)
	}
	c.validateAgent(from, fail)
	if _, err := c.templateText(); err != nil {
		fail("chat-template", "%w", err)
	}
	if c.Device == "" {
		fail("device", "is empty; use auto, cpu or device names")
	}
	if c.onCPU() {
		if c.GPULayers > 0 {
			fail("gpu-layers", "%d layers have no GPU to go to with --device cpu; remove one of the two", c.GPULayers)
		}
		if len(c.TensorSplit) > 0 {
			fail("tensor-split", "has no GPUs to split over with --device cpu; remove one of the two")
		}
	}
	if c.Reproducible && c.DraftRows > 0 {
		fail("draft-rows", "has no effect with --reproducible, with which nothing is guessed; remove one of the two")
	}
	if c.Reproducible && c.CacheRAM > 0 {
		fail("cache-ram", "has nothing to keep with --reproducible, which computes every input from its first token on; remove one of the two")
	}
	if c.PrefixCache == "off" && c.CacheRAM > 0 {
		fail("cache-ram", "has nothing to keep with --prefix-cache off; remove one of the two")
	}
	if c.OutputStyle == "json" && c.ModelFormat != "auto" && c.ModelFormat != "template" {
		fail("output-style", "json is a style of --model-format template, not of %s", c.ModelFormat)
	}

	if strings.TrimSpace(c.AgentVersion) == "" {
		fail("agent-version", "is empty; name a version, such as %s", release)
	}
	if c.Host != "localhost" {
		if _, err := netip.ParseAddr(c.Host); err != nil {
			fail("host", "got %q, want an IP address such as 127.0.0.1, 0.0.0.0 or ::1, or localhost", c.Host)
		}
	}
	switch {
	case c.TLSCert != "" && c.TLSKey == "":
		fail("tls-cert", "needs --tls-key too")
	case c.TLSKey != "" && c.TLSCert == "":
		fail("tls-key", "needs --tls-cert too")
	case c.TLSCert != "":
		if _, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
			fail("tls-cert", "%w; want PEM files that belong together", err)
		}
	}
	if c.AuthTokenFile != "" {
		if _, err := readTokens(c.AuthTokenFile); err != nil {
			fail("auth-token-file", "%w", err)
		}
	}
	if _, err := egress.NewPolicy(c.CoachingAllow); err != nil {
		fail("coaching-allow", "%w", err)
	}
	switch {
	case c.CoachHuman == "":
		if c.CoachHumanWhen != coaching.PeopleFirst {
			fail("coach-human-when", "says when people are asked, and nobody is; name them with --coach-human")
		}
	case c.Coaching == "off":
		fail("coach-human", "has nothing to coach with --coaching off; remove one of the two")
	default:
		people := coaching.People{Endpoint: c.CoachHuman, When: c.CoachHumanWhen}
		if err := people.Check(); err != nil {
			fail("coach-human", "%w; want a URL such as http://127.0.0.1:8890", err)
		}
	}
	if c.PromptLogDir != "" {
		if info, err := os.Stat(c.PromptLogDir); err == nil && !info.IsDir() {
			fail("prompt-log-dir", "%s is not a directory", c.PromptLogDir)
		}
	}
	if c.Pprof != "" {
		if err := profilerAddress(c.Pprof); err != nil {
			fail("pprof", "%w", err)
		}
	}
	return errors.Join(problems...)
}

// onCPU reports whether the CPU was asked for by name.
func (c *Config) onCPU() bool { return strings.EqualFold(strings.TrimSpace(c.Device), "cpu") }

func regularFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s does not exist", path)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	}
	return nil
}

// readTokens reads bearer tokens, one a line; blank lines and lines that begin
// with # are skipped. Errors name the line, never its content.
func readTokens(path string) ([]string, error) {
	raw, err := readLimited(path, tokenFileLimit)
	if err != nil {
		return nil, err
	}
	var tokens []string
	number := 0
	for line := range strings.Lines(string(raw)) {
		number++
		token := strings.TrimSpace(line)
		if token == "" || strings.HasPrefix(token, "#") {
			continue
		}
		if len(token) < minTokenLength {
			return nil, fmt.Errorf("%s line %d: a token needs at least %d characters (openssl rand -hex 32 makes one)", path, number, minTokenLength)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("%s line %d: a token is one word of printable ASCII characters", path, number)
		}
		tokens = append(tokens, token)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s holds no token; write one a line", path)
	}
	return tokens, nil
}

// templateText is the Jinja source of --chat-template: the file it names, else
// the text itself. A single line without Jinja marks can only be a file name.
func (c *Config) templateText() (string, error) {
	t := c.ChatTemplate
	if t == "" || strings.Contains(t, "{{") || strings.Contains(t, "{%") {
		return t, nil
	}
	raw, err := readLimited(filepath.Clean(t), templateFileLimit)
	if err != nil {
		return "", fmt.Errorf("%w; want a file, or Jinja text with {{ or {%%", err)
	}
	return string(raw), nil
}

package serve

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentd/agent"
	"agentd/cmd/internal/hub"
	"agentd/cmd/internal/options"
	"agentd/coaching"
	"agentd/coaching/egress"
	store "agentd/coaching/postgres"
	"agentd/internal/base/conformal"
	"agentd/internal/base/version"
	"agentd/llama/checkpoint"
	"agentd/scheduler/remote"
)

// checkModel checks the model file and what must fit its context.
func (c *Config) checkModel(p *options.Problems) {
	m := &c.Inference
	if m.Path != "" {
		if err := regularFile(m.Path); err != nil && !checkpoint.IsDirectory(m.Path) && (!m.Remote.Enabled() || !directory(m.Path)) {
			p.Add("model", "%w; name a GGUF file%s", err, HubHint(m.Path))
		}
	}
	switch _, err := hub.Parse(c.HF); {
	case c.HF == "":
	case m.Path != "":
		p.Add("hf", "names a model, and so does %s; remove one of the two", p.From.Name("model"))
	case err != nil:
		p.Add("hf", "%w", err)
	}
	if m.Alias != "" && strings.TrimSpace(m.Alias) == "" {
		p.Add("model-alias", "is blank; name the model, or remove this")
	}
	served := *m
	served.Path = m.Path + c.HF // one of them is empty
	if _, err := templateText(m.Agent.Prompt.ChatTemplate); err != nil {
		p.Add("chat-template", "%w", err)
	}
	if m.ContextLength == 0 {
		return
	}
	if m.FixedTokens >= m.ContextLength {
		p.Add("debug fixed-tokens", "%d leaves no space for a prompt in --context-length %d; lower the one or raise the other", m.FixedTokens, m.ContextLength)
	} else if n := served.MaxNewTokens(); n >= m.ContextLength {
		p.Add("max-new-tokens", "%d leaves no space for a prompt in --context-length %d; lower the one or raise the other", n, m.ContextLength)
	}
}

// checkAgent checks the options of the prompt, and those that belong to one of the agents.
func (c *Config) checkAgent(p *options.Problems) {
	a := &c.Inference.Agent
	if strings.TrimSpace(a.DefaultRobot) == "" {
		p.Add("default-robot", "is empty; name a robot, such as robot")
	}
	if a.Prompt.OutputStyle == "json" && a.Format != "auto" && a.Format != "template" {
		p.Add("output-style", "json is a style of --model-format template, not of %s", a.Format)
	}
	if !c.summarizes() {
		if a.Summary != (agent.Summary{}) {
			p.Add("agent", "budget, unit, max-tokens and keep are for %s; choose that, or remove them", agent.HistorySummarized)
		}
		return
	}
	if a.HistoryMaxMessages > 0 {
		p.Add("history-max-messages", "hides messages that a summary needs; remove it, or use --agent %s", agent.FullHistory)
	}
	if c.Inference.FixedTokens > 0 {
		p.Add("debug fixed-tokens", "makes text that is not a summary; remove it, or use --agent %s", agent.FullHistory)
	}
	if _, given := p.From["coaching"]; given && !c.NoCoaching {
		p.Add("coaching", "is not possible with --agent %s; remove it, or use --agent %s", agent.HistorySummarized, agent.FullHistory)
	}
}

// checkSpeed checks the options of devices, caches and drafts.
func (c *Config) checkSpeed(p *options.Problems) {
	m := &c.Inference
	if m.Device == "" {
		p.Add("device", "is empty; use auto, cpu or device names")
	}
	if strings.EqualFold(strings.TrimSpace(m.Device), "cpu") {
		if m.GPULayers > 0 {
			p.Add("gpu-layers", "%d layers have no GPU to go to with --device cpu; remove one of the two", m.GPULayers)
		}
		if m.SplitMode != "layer" {
			p.Add("split-mode", "%s has no GPUs to split over with --device cpu; remove one of the two", m.SplitMode)
		}
	}
	if m.Scheduler.NoPrefixCache && m.CacheRAM > 0 {
		p.Add("cache-ram", "has nothing to keep with --debug prefix-cache=off; remove one of the two")
	}
}

// checkCoaching checks where coaches may be and who they are.
func (c *Config) checkCoaching(p *options.Problems) {
	if _, err := egress.NewPolicy(c.CoachingAllow); err != nil {
		p.Add("coaching-allow", "%w", err)
	}
	c.checkStore(p)
	people := c.Coaching.People
	switch {
	case people.Endpoint == "":
		if people.When != coaching.PeopleFirst {
			p.Add("coach-human when", "is for a URL, which is missing; name the endpoint of people before it")
		}
	case c.NoCoaching:
		p.Add("coach-human", "has nothing to coach with --coaching off; remove one of the two")
	default:
		if err := people.Check(); err != nil {
			p.Add("coach-human", "%s; want a URL such as http://127.0.0.1:8890", strings.TrimPrefix(err.Error(), "(not a URL) "))
		}
	}
}

// checkAsk checks the calibration, and that it can hold for all decisions.
func (c *Config) checkAsk(p *options.Problems) {
	switch _, err := c.ask(); {
	case c.Ask.File == "":
		if _, given := p.From["ask"]; given {
			p.Add("ask", "has no file; name one of agentd calibrate before error and wait")
		}
	case err != nil:
		p.Add("ask", "%w", err)
	case c.Inference.WeightsDir != "":
		p.Add("ask", "is for one model, and with --weights-dir the weights may change; remove one of the two")
	case c.Inference.Remote.Enabled():
		p.Add("ask", "needs probabilities of options, which engines at URLs don't give; remove --ask or --engine")
	case c.summarizes():
		p.Add("ask", "is not possible with --agent %s; remove it, or use --agent %s", agent.HistorySummarized, agent.FullHistory)
	}
}

// ask reads the calibration; nil: there is none.
func (c *Config) ask() (*agent.Ask, error) {
	if c.Ask.File == "" {
		return nil, nil
	}
	file, err := conformal.ReadFile(c.Ask.File)
	if err != nil {
		return nil, err
	}
	rate, err := file.Rate(c.Ask.Error)
	if err != nil {
		return nil, err
	}
	return &agent.Ask{Error: rate.Error, Threshold: rate.Threshold, Model: file.Model, Format: file.Format}, nil
}

// checkStore checks where coaching sessions are kept.
func (c *Config) checkStore(p *options.Problems) {
	switch {
	case c.Store == "":
		if c.StoreKeyFile != "" {
			p.Add("store-key-file", "is for --store, which is missing; name the database with it")
		}
		return
	case c.NoCoaching || c.summarizes():
		p.Add("store", "has nothing to keep without coaching; remove it, or switch coaching on")
	case c.StoreKeyFile == "":
		p.Add("store", "needs --store-key-file, since sessions hold the keys of coaches; make one with: openssl rand -hex 32")
	}
	if err := store.Check(c.Store); err != nil {
		p.Add("store", "%w", err)
	}
	if c.StoreKeyFile != "" {
		if _, err := readStoreKeys(c.StoreKeyFile); err != nil {
			p.Add("store-key-file", "%w", err)
		}
	}
}

// readStoreKeys reads the keys of --store-key-file.
func readStoreKeys(path string) (*store.Keys, error) {
	raw, err := options.ReadFile(path, keyFileLimit)
	if err != nil {
		return nil, err
	}
	keys, err := store.ReadKeys(string(raw))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// checkFiles checks the rest.
func (c *Config) checkFiles(p *options.Problems) {
	if strings.TrimSpace(c.Server.Info.AgentVersion) == "" {
		p.Add("agent-version", "is empty; name a version, such as %s", version.Release)
	}
	if dir := c.Inference.Agent.PromptLogDir; dir != "" {
		file := filepath.Join(dir, ".agentd")
		if err := cmp.Or(os.MkdirAll(dir, 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			p.Add("prompt-log-dir", "%w", err)
		}
		_ = os.Remove(file) // also another server's, which then has written it
	}
	if c.Pprof != "" {
		if err := profilerAddress(c.Pprof); err != nil {
			p.Add("debug pprof", "%w", err)
		}
	}
}

// checkEngine checks the options of remote engines.
func (c *Config) checkEngine(p *options.Problems) {
	m := &c.Inference
	if m.Remote.Enabled() {
		if err := m.CheckRemote(); err != nil {
			p.Add("engine", "%s", strings.TrimPrefix(c.Command().NameFields(m, err).Error(), "--engine: "))
		}
		if c.StuckExit {
			p.Add("stuck", "exit is for the embedded engine and means nothing with --engine; remove one of the two")
		}
		return
	}
	for option, given := range map[string]bool{
		"engine-api": m.Remote.API != remote.APIAuto, "engine-key-file": m.Remote.KeyFile != "", "engine-model": m.Remote.Model != "",
	} {
		if given {
			p.Add(option, "is for --engine, which is missing; add that, or remove this")
		}
	}
}

func directory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func regularFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s does not exist", path)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		if _, err := os.ReadDir(path); errors.Is(err, os.ErrPermission) {
			return err
		}
		return fmt.Errorf("%s is neither a file nor a checkpoint: it has no config.json or adapter_config.json", path)
	}
	return nil
}

// templateText is the Jinja source of --chat-template: the file it names, else the text
// itself. A single line without Jinja marks can only be a file name.
func templateText(given string) (string, error) {
	if given == "" || strings.Contains(given, "{{") || strings.Contains(given, "{%") {
		return given, nil
	}
	raw, err := options.ReadFile(filepath.Clean(given), templateFileLimit)
	if err != nil {
		return "", fmt.Errorf("%w; want a file, or Jinja text with {{ or {%%", err)
	}
	return string(raw), nil
}

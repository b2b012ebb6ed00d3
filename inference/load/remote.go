package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"agentd/agent"
	"agentd/inference/defaultmodel"
	"agentd/llama/checkpoint"
	"agentd/scheduler/remote"
)

// openRemote loads the vocabulary of the model at cfg.Path, a GGUF file or a Hugging Face
// directory, and waits for an engine that serves it.
func openRemote(ctx context.Context, cfg Config) (m *Model, err error) {
	if err := cfg.CheckRemote(); err != nil {
		return nil, err
	}
	f, err := vocabularyFile(cfg.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it is read, not mapped
	if m, err = openVocabulary(ctx, cfg, f.Name()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	c := cfg.Remote
	c.QueueLimit = cfg.Scheduler.QueueLimit
	engine, err := remote.New(c, vocabulary{m.Llama, cmp.Or(cfg.Path, "the default model")}, cfg.Log)
	if err != nil {
		return m, err
	}
	m.Remote = engine
	if err := engine.Start(ctx); err != nil {
		return m, err
	}
	info := m.Llama.Info()
	m.Info = EngineInfo{
		ModelInfo: info, Path: cfg.Path, Default: cfg.Path == "", Device: engine.API(),
		ContextLength: cmp.Or(engine.Context(), info.ContextTrain), Variance: "the engines decide", Contexts: len(c.URLs), MaxNewTokens: cfg.MaxNewTokens(),
	}
	m.Info.Name, m.Info.Description = cmp.Or(cfg.Alias, engine.Served()), "served by "+engine.API()
	cfg.Agent.ConsecutiveSeeds, cfg.Agent.Sessions = true, true
	cfg.Agent.ModelVersion = func(context.Context) (string, error) { return engine.Served(), nil }
	cfg.Agent.NoLogprobs = engine.NoLogprobs()
	cfg.Agent.NoMasks = "engines at URLs don't say which tokens the grammar and the sampling left"
	cfg.Agent.NoDistinct = "engines at URLs can't search for distinct candidates"
	cfg.Agent.NoScheduling = "engines at URLs can't continue answers or order them by priority"
	if err := m.makeAgent(cfg); err != nil {
		return m, err
	}
	return m, m.findForm(ctx, cfg, formTimeoutRemote, func(n int) (agent.Generator, error) { return m.Remote.Admit(n) })
}

// embeddedFields are the settings of the embedded engine.
var embeddedFields = []string{
	"Device", "GPULayers", "Contexts", "CacheRAM", "Threads", "CPUAttention", "LoRA", "WeightsDir", "KVType",
	"ContextLength", "Quantization", "Scheduler.MaxRunning", "Scheduler.BatchTokens", "Scheduler.DraftRows", "Reproducible",
	"Scheduler.QueueTime", "Scheduler.NoForcedTokens", "Scheduler.NoPrefixCache", "Agent.KeepRepeating",
}

// CheckRemote checks the settings of engines at URLs. It refuses settings of the embedded engine, which would
// be ignored.
func (c *Config) CheckRemote() error {
	if err := c.Remote.Validate(); err != nil {
		return err
	}
	usual := DefaultConfig()
	for _, name := range embeddedFields {
		set, d := reflect.ValueOf(c).Elem(), reflect.ValueOf(usual)
		for part := range strings.SplitSeq(name, ".") {
			set, d = set.FieldByName(part), d.FieldByName(part)
		}
		if text := fmt.Sprint(set); text != fmt.Sprint(d) && text != "" {
			return fmt.Errorf("the field Config.%s is for the embedded engine and means nothing with Config.Remote.URLs; remove one of the two", name)
		}
	}
	return nil
}

// vocabularyFile opens the GGUF file at path, or converts the vocabulary of a Hugging Face directory.
func vocabularyFile(path string) (*os.File, error) {
	if path == "" {
		return defaultmodel.Open()
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the vocabulary: %w", err)
	case info.IsDir():
		return checkpoint.OpenVocabulary(path)
	}
	return os.Open(path)
}

package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentd/defaultmodel"
	"agentd/llama/synth"
	"agentd/scheduler/hfvocab"
	"agentd/scheduler/remote"
)

// openRemote loads the vocabulary of the model at cfg.Path, a GGUF file or a Hugging Face
// directory, and waits for an engine that serves it.
func openRemote(ctx context.Context, cfg Config) (m *Model, err error) {
	if err := cfg.CheckRemote(); err != nil {
		return nil, err
	}
	path, remove, err := vocabularyFile(cfg.Path)
	if err != nil {
		return nil, err
	}
	defer remove() // it is read, not mapped
	if m, err = openVocabulary(ctx, cfg, path); err != nil {
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
		Path: cfg.Path, Default: cfg.Path == "", Name: engine.Served(), Architecture: info.Architecture,
		Description: "served by " + engine.API(), Device: engine.API(), ContextLength: engine.Context(), TrainedContext: info.ContextTrain,
		Contexts: len(c.URLs), MaxNewTokens: cfg.MaxNewTokens(),
	}
	if m.Info.ContextLength == 0 {
		m.Info.ContextLength = info.ContextTrain
	}
	cfg.Agent.SeedsInARow = true
	cfg.Agent.ModelVersion = func(context.Context) (string, error) { return engine.Served(), nil }
	cfg.Agent.NoLogprobs = engine.NoLogprobs()
	cfg.Agent.NoDistinct = engine.NoLogprobs()
	cfg.Agent.NoMostProbable = "engines at URLs draw distinct candidates and can't search for the most probable ones"
	return m, m.makeAgent(cfg)
}

// CheckRemote checks the settings of remote engines. It refuses settings of the embedded engine,
// which would be ignored.
func (c *Config) CheckRemote() error {
	if err := c.Remote.Validate(); err != nil {
		return err
	}
	d := DefaultConfig()
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Device", c.Device != d.Device},
		{"GPULayers", c.GPULayers != d.GPULayers},
		{"Contexts", c.Contexts != d.Contexts},
		{"CacheRAM", c.CacheRAM != 0},
		{"Threads", c.Threads != 0},
		{"CPUAttention", c.CPUAttention != d.CPUAttention && c.CPUAttention != ""},
		{"DeviceAttention", c.DeviceAttention != d.DeviceAttention && c.DeviceAttention != ""},
		{"LoRA", len(c.LoRA) > 0},
		{"WeightsDir", c.WeightsDir != ""},
		{"KVType", c.KVType != d.KVType && c.KVType != ""},
		{"ContextLength", c.ContextLength != 0},
		{"Quantization", c.Quantization != d.Quantization && c.Quantization != ""},
		{"Scheduler.MaxRunning", c.Scheduler.MaxRunning != 0},
		{"Scheduler.BatchTokens", c.Scheduler.BatchTokens != 0},
		{"Scheduler.DraftRows", c.Scheduler.DraftRows != Auto},
		{"Scheduler.BatchInvariant", c.Scheduler.BatchInvariant},
		{"Scheduler.QueueTime", c.Scheduler.QueueTime != 0},
		{"Scheduler.NoForcedTokens", c.Scheduler.NoForcedTokens},
		{"Scheduler.NoPrefixCache", c.Scheduler.NoPrefixCache},
		{"Agent.KeepRepeating", c.Agent.KeepRepeating},
	} {
		if f.set {
			return fmt.Errorf("the field Config.%s is for the embedded engine and means nothing with Config.Remote.URLs; remove one of the two", f.name)
		}
	}
	return nil
}

// vocabularyFile returns a GGUF file with the vocabulary of a model, and what removes it if
// it was made for this call.
func vocabularyFile(path string) (file string, remove func(), err error) {
	remove = func() {}
	if path == "" {
		f, err := defaultmodel.Open()
		if err != nil {
			return "", remove, err
		}
		return f.Name(), func() { _ = f.Close() }, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", remove, fmt.Errorf("the vocabulary: %w", err)
	}
	if !info.IsDir() {
		return path, remove, nil
	}
	dir, err := os.MkdirTemp("", "agentd-vocabulary-")
	if err != nil {
		return "", remove, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file = filepath.Join(dir, "vocabulary.gguf")
	if err := synth.WriteFile(file, func(f *os.File) error { return hfvocab.Write(f, path) }); err != nil {
		remove()
		return "", func() {}, err
	}
	return file, remove, nil
}

package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"agentd/defaultmodel"
	"agentd/llama/checkpoint"
	"agentd/llama/synth"
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
		ModelInfo: info, Path: cfg.Path, Default: cfg.Path == "", Device: engine.API(),
		ContextLength: cmp.Or(engine.Context(), info.ContextTrain), Variance: "the engines decide", Contexts: len(c.URLs), MaxNewTokens: cfg.MaxNewTokens(),
	}
	m.Info.Name, m.Info.Description = cmp.Or(cfg.Alias, engine.Served()), "served by "+engine.API()
	cfg.Agent.SeedsInARow = true
	cfg.Agent.ModelVersion = func(context.Context) (string, error) { return engine.Served(), nil }
	cfg.Agent.NoDistinct = "engines at URLs can't search for distinct candidates"
	cfg.Agent.NoScheduling = "engines at URLs can't continue answers or order them by priority"
	return m, m.makeAgent(cfg)
}

// embeddedFields are the settings of the embedded engine.
var embeddedFields = []string{
	"Device", "GPULayers", "Contexts", "CacheRAM", "Threads", "CPUAttention", "DeviceAttention", "LoRA", "WeightsDir", "KVType",
	"ContextLength", "Quantization", "Scheduler.MaxRunning", "Scheduler.BatchTokens", "Scheduler.DraftRows", "Reproducible",
	"Scheduler.QueueTime", "Scheduler.NoForcedTokens", "Scheduler.NoPrefixCache", "Agent.KeepRepeating",
}

// CheckRemote checks the settings of remote engines. It refuses settings of the embedded engine,
// which would be ignored. "": no setting.
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
	if err := synth.WriteFile(file, func(f *os.File) error { return checkpoint.WriteVocabulary(f, path) }); err != nil {
		remove()
		return "", func() {}, err
	}
	return file, remove, nil
}

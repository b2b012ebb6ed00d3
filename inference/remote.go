package inference

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentd/agent"
	"agentd/defaultmodel"
	"agentd/llama"
	"agentd/llama/checkpoint"
	"agentd/llama/synth"
	"agentd/scheduler/generation"
	"agentd/scheduler/remote"
)

// openRemote loads the vocabulary of the model at cfg.Path, a GGUF file or a Hugging Face
// directory, and waits for an engine that serves it.
func openRemote(ctx context.Context, cfg Config) (s *Service, err error) {
	if err := cfg.CheckRemote(); err != nil {
		return nil, err
	}
	path, remove, err := vocabularyFile(cfg.Path)
	if err != nil {
		return nil, err
	}
	defer remove() // it is read, not mapped
	s = &Service{queueLimit: cfg.Scheduler.QueueLimit, latency: newLatency()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
			s = nil
		}
	}()
	_, pluginErr := llama.LoadBackends(llama.LibDir()) // matters only if the CPU's is missing too
	s.model, err = llama.New(path, llama.SetCancel(ctx), llama.SetVocabOnly(true), llama.SetDevices("cpu"))
	if err != nil {
		return s, errors.Join(fmt.Errorf("the vocabulary of %s could not be loaded: %w", cfg.Path, err), pluginErr)
	}
	s.models = []*llama.Model{s.model} // for Close
	if err := s.loadTemplate(cfg); err != nil {
		return s, err
	}
	c := cfg.Remote
	c.QueueLimit = cfg.Scheduler.QueueLimit
	engine, err := remote.New(c, vocabulary{s.model, cmp.Or(cfg.Path, "the default model")}, cfg.Log)
	if err != nil {
		return s, err
	}
	s.engine = remoteEngine{engine}
	if err := engine.Start(ctx); err != nil {
		return s, err
	}
	info := s.model.Info()
	s.info = EngineInfo{
		Path: cfg.Path, Default: cfg.Path == "", Name: engine.Served(), Architecture: info.Architecture,
		Description: "served by " + engine.API(), Device: engine.API(), ContextLength: engine.Context(), TrainedContext: info.ContextTrain,
		Variance: "the engines decide", Contexts: len(c.URLs), MaxNewTokens: cfg.MaxNewTokens(),
	}
	if s.info.ContextLength == 0 {
		s.info.ContextLength = info.ContextTrain
	}
	cfg.Agent.SeedsInARow = true
	cfg.Agent.ModelVersion = func(context.Context) (string, error) { return engine.Served(), nil }
	cfg.Agent.NoLogprobs = engine.NoLogprobs()
	cfg.Agent.NoDistinct = "engines at URLs can't search for distinct candidates"
	return s, s.makeAgent(cfg)
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
		{"TensorSplit", len(c.TensorSplit) > 0},
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
		{"Reproducible", c.Reproducible},
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
	if err := synth.WriteFile(file, func(f *os.File) error { return checkpoint.WriteVocabulary(f, path) }); err != nil {
		remove()
		return "", func() {}, err
	}
	return file, remove, nil
}

// vocabulary gives a remote engine what it needs of a model without weights.
type vocabulary struct {
	model *llama.Model
	path  string
}

var _ remote.Model = vocabulary{}

func (v vocabulary) Name() string { return v.path }
func (v vocabulary) Size() int    { return v.model.Vocab().Size() }

func (v vocabulary) Tokenize(text string) ([]generation.Token, error) {
	return v.model.Vocab().Tokenize(text, false, false)
}

func (v vocabulary) Detokenize(ids []generation.Token) string {
	return v.model.Vocab().Detokenize(ids, true)
}
func (v vocabulary) IsEnd(id generation.Token) bool     { return v.model.Vocab().IsEOG(id) }
func (v vocabulary) PlainGrammar(grammar string) string { return agent.PlainGrammar(grammar) }

func (v vocabulary) Ends() []generation.Token {
	return v.tokens(func(id generation.Token) bool { return v.IsEnd(id) })
}

func (v vocabulary) Control() []generation.Token {
	return v.tokens(func(id generation.Token) bool { return v.model.Vocab().IsControl(id) && !v.IsEnd(id) })
}

func (v vocabulary) tokens(wanted func(generation.Token) bool) (list []generation.Token) {
	for _, id := range v.model.Vocab().SpecialTokens() {
		if wanted(id) {
			list = append(list, id)
		}
	}
	return list
}

// Check implements remote.Model with the matcher of the embedded engine, so that both engines
// admit the same answers.
func (v vocabulary) Check(grammar string, ids []generation.Token) (int, error) {
	if at := v.specialInCall(ids); at < len(ids) {
		return at, nil
	}
	sampler, err := v.model.NewSampler(llama.SamplerConfig{Grammar: grammar})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", generation.ErrGrammar, err)
	}
	defer func() { _ = sampler.Close() }()
	for i, id := range ids {
		if err := sampler.Accept(id); err != nil {
			return i, nil
		}
	}
	return len(ids), nil
}

// specialInCall returns the index of the first special token within a JSON string, len(ids)
// without one. Engines that match grammars by text admit such tokens there, since the string
// may hold their text. A string begins behind a brace, so that quotes in prose do not count.
func (v vocabulary) specialInCall(ids []generation.Token) int {
	vocab := v.model.Vocab()
	depth, quoted, escaped := 0, false, false
	for i, id := range ids {
		if quoted && vocab.Attr(id)&(llama.AttrControl|llama.AttrUserDefined) != 0 && !vocab.IsEOG(id) {
			return i
		}
		for _, c := range vocab.Piece(id, true) {
			switch {
			case escaped:
				escaped = false
			case quoted && c == '\\':
				escaped = true
			case c == '"' && depth > 0:
				quoted = !quoted
			case quoted:
			case c == '{':
				depth++
			case c == '}' && depth > 0:
				depth--
			}
		}
	}
	return len(ids)
}

// remoteAdapters are those that remote engines list. They do not show their versions.
type remoteAdapters struct{ engine *remote.Engine }

func (a remoteAdapters) Adapter(name string) (agent.Adapter, bool) {
	id, ok := a.engine.Adapter(name)
	return agent.Adapter{Name: name, ID: id}, ok
}

func (a remoteAdapters) Names() []string { return a.engine.Adapters() }

// remoteEngine is a remote engine as a Service uses it.
type remoteEngine struct{ *remote.Engine }

func (e remoteEngine) Admit(n int) (admission, error) {
	a, err := e.Engine.Admit(n)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Failure is the reason why no engine can be asked right now. It ends when one answers again.
func (e remoteEngine) Failure() error {
	if e.Healthy() {
		return nil
	}
	return generation.ErrUnreachable
}

func (e remoteEngine) Close() error {
	e.Engine.Close()
	return nil
}

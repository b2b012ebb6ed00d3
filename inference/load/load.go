package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/inference/defaultmodel"
	"agentd/internal/base/budget"
	"agentd/llama"
	"agentd/llama/checkpoint"
	"agentd/llama/synth"
	"agentd/scheduler"
	"agentd/scheduler/generation"
)

// Open loads a model and starts its engine. It stops when ctx ends. Errors
// name the file or the field of cfg and what to change.
func Open(ctx context.Context, cfg Config) (m *Model, err error) {
	if err := llama.Init(cfg.Log); err != nil {
		return nil, err
	}
	if cfg.Build != "" {
		llama.SetBuild(cfg.Build)
	}
	cfg.Agent.MaxNewTokens = cfg.MaxNewTokens()
	if cfg.Remote.Enabled() {
		return openRemote(ctx, cfg)
	}
	place, err := placement(cfg)
	if err != nil {
		return nil, err
	}
	m = new(Model)
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	groups, err := place.split(max(1, cfg.Contexts), cfg)
	if err != nil {
		return m, err
	}
	if err := m.loadModels(ctx, cfg, groups); err != nil {
		return m, err
	}
	m.Info.Device = place.describe()
	cfg.Agent.ModelVersion, cfg.Agent.AlwaysVersion = m.Weights.Version, cfg.WeightsDir != ""
	if err := cmp.Or(ctx.Err(), m.loadTemplate(cfg)); err != nil {
		return m, err
	}
	m.Info.Attention = attention(groups[0].gpu(), cfg.CPUAttention)
	if err := m.chooseIsolation(&cfg, groups[0].gpu()); err != nil {
		return m, err
	}
	perCell, err := m.chooseSizes(cfg, groups)
	if err != nil {
		return m, err
	}
	if err := m.makeAgent(cfg); err != nil {
		return m, err
	}
	if err := m.startEngine(ctx, cfg, groups, perCell); err != nil {
		return m, err
	}
	if err := m.findForm(ctx, cfg, formTimeout, func(n int) (agent.Generator, error) { return m.Engine.Admit(n, 0) }); err != nil {
		return m, err
	}
	m.Weights.begin(lookInterval)
	return m, nil
}

// loadModels reads the model file, or the embedded one, for each group of devices. A
// quantization that Config.Quantization does not allow is an error.
func (m *Model) loadModels(ctx context.Context, cfg Config, groups []deviceGroup) (err error) {
	path := cfg.Path
	if path == "" {
		f, err := defaultmodel.Open()
		if err != nil {
			return err
		}
		defer f.Close() // m.Weights opens it, too
		path = f.Name()
	} else if checkpoint.IsDirectory(path) {
		f, err := checkpoint.Open(ctx, path)
		if err != nil {
			return fmt.Errorf("the checkpoint could not be read: %w", err)
		}
		defer f.Close() // it stays as long as it is mapped
		path = f.Name()
	}
	if m.Weights, err = openWeights(path, cfg.Log); err != nil {
		return fmt.Errorf("the model %s could not be read: %w", path, err)
	}
	m.Weights.inMemory = path != cfg.Path
	for i, group := range groups {
		load := []llama.ModelOption{
			llama.SetCancel(ctx),
			llama.SetGPULayers(group.layers),
			llama.SetDevices(group.devices...),
		}
		if cfg.Path == "" { // the file in memory is freed after it was read
			load = append(load, llama.SetMMap(false))
		}
		if cfg.Progress != nil {
			load = append(load, llama.SetProgress(func(part float32) { cfg.Progress((float32(i) + part) / float32(len(groups))) }))
		}
		if group.shares != nil {
			load = append(load, llama.SetTensorSplit(group.shares...))
		}
		if group.gpu() {
			load = append(load, llama.SetSplitMode(group.mode))
		}
		model, err := llama.New(path, load...)
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("loading was stopped: %w", ctx.Err())
			}
			return loadError(cmp.Or(cfg.Path, path), group.mode, err)
		}
		m.copies = append(m.copies, model)
	}
	m.Llama = m.copies[0]
	m.Info = EngineInfo{ModelInfo: m.Llama.Info(), Path: cfg.Path, Default: cfg.Path == "", GPULayers: groups[0].layers}
	m.Info.Name = cmp.Or(cfg.Alias, m.Info.Name)
	return checkQuantization(cfg.Quantization, cmp.Or(cfg.Path, path), m.Info.ModelInfo)
}

// checkQuantization refuses a quantized model if mode, Config.Quantization, does not allow it.
func checkQuantization(mode, path string, info llama.ModelInfo) error {
	if mode != "none" {
		return nil
	}
	var what string
	switch {
	case info.Architecture == synth.GPTOSS:
		what = "a GPT-OSS model"
	case info.NativeMXFP4:
		what = "natively quantized (MXFP4)"
	case info.Quantized:
		return fmt.Errorf("%s is quantized (%s), which Config.Quantization none refuses: use Config.Quantization auto, or an F16, BF16 or F32 file", path, info.FileType)
	default:
		return nil
	}
	return fmt.Errorf("%s is %s, which needs Config.Quantization auto", path, what)
}

// loadTemplate parses the user's chat template, without one the model's.
func (m *Model) loadTemplate(cfg Config) error {
	template, err := m.Llama.NewTemplate(cfg.Agent.Prompt.ChatTemplate)
	if err != nil {
		switch {
		case cfg.Agent.Prompt.ChatTemplate != "":
			return fmt.Errorf("Config.Prompt.ChatTemplate: %w", err)
		case errors.Is(err, llama.ErrNoTemplate):
			return nil // qwen, gpt-oss and llama prompts need none
		}
		return fmt.Errorf("the model's chat template: %w; name another one as Config.Prompt.ChatTemplate", err)
	}
	m.template = template
	return nil
}

// providerEmbedded is gen_ai.provider.name of llama.cpp in this process.
const providerEmbedded = "agentd"

// makeAgent makes the agent for the model's prompt format.
func (m *Model) makeAgent(cfg Config) error {
	source := ""
	if m.template != nil {
		source = m.template.Source()
	}
	m.Info.Sampling = sampling(cfg, m.Llama)
	if v := m.Llama.SamplingDefault("penalty_repeat"); v != nil && *v != 1 && m.Agent == nil {
		cfg.Log.Warn().Float32("repetition_penalty", *v).Msg("the model's files name a repetition penalty; agentd samples without one")
	}
	var err error
	if m.Info.Agent = cmp.Or(cfg.Agent.Kind, agent.FullHistory); m.Info.Agent == agent.HistorySummarized {
		if m.Info.Summary, err = m.summary(cfg); err != nil {
			return err
		}
	}
	c := cfg.Agent
	c.Kind, c.Summary, c.Sampling = m.Info.Agent, m.Info.Summary, m.Info.Sampling
	c.Prompt.Architecture, c.Prompt.ChatTemplate = m.Info.Architecture, source
	c.MaxNewTokens, c.IgnoreEnd = cfg.MaxNewTokens(), cfg.FixedTokens > 0
	c.LogError = func(err error) { cfg.Log.Warn().Err(err).Msg("prompt log") }
	c.ContextLength = m.Window()
	c.Provider, c.Model = providerEmbedded, m.Name()
	if cfg.Remote.Enabled() {
		c.Provider = m.Info.Device // the API of the engines
	}
	made, err := agent.New(c, newToolkit(m.Llama.Vocab(), m.template, time.Now()), m.Llama.Vocab())
	if err != nil {
		return err
	}
	m.Agent = made
	m.Info.Format, m.Info.CallForm = made.Format(), made.CallForm()
	return nil
}

// findForm finds the model's form of calls, unless Config.Agent.Prompt.OutputStyle sets it, and makes a new agent if
// the form is not the format's own. The default model was trained with that, so it is not asked.
func (m *Model) findForm(ctx context.Context, cfg Config, timeout time.Duration, admit func(n int) (agent.Generator, error)) error {
	style := &cfg.Agent.Prompt.OutputStyle
	if *style != "" && *style != format.StyleBlocks || m.Info.Default || cfg.FixedTokens > 0 || cfg.Agent.Constrain == agent.ConstrainOff {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	form, err := m.Agent.FindForm(ctx, admit)
	if err != nil {
		cfg.Log.Warn().Err(err).Msg("the model could not be asked in which form it calls tools; if its calls come as text, set output-style to bare, fenced or named")
	}
	if form == format.FormNative {
		return nil
	}
	*style = form
	return m.makeAgent(cfg)
}

// sampling returns the parameters of the config, without one the model file's, without that agent.DefaultSampling's.
func sampling(cfg Config, model *llama.Model) generation.Sampling {
	chosen := agent.DefaultSampling
	if v := model.SamplingDefault("temp"); v != nil && *v > 0 { // 0 is greedy, which inference_mode requests
		chosen.Temperature = *v
	}
	if v := model.SamplingDefault("top_p"); v != nil && *v > 0 && *v <= 1 {
		chosen.TopP = *v
	}
	if v := model.SamplingDefault("top_k"); v != nil {
		chosen.TopK = int(max(*v, 0)) // -1 is off, too
	}
	if v := model.SamplingDefault("min_p"); v != nil && *v >= 0 && *v <= 1 {
		chosen.MinP = *v
	}
	for to, from := range map[*float32]*float64{
		&chosen.Temperature: cfg.Temperature, &chosen.TopP: cfg.TopP, &chosen.MinP: cfg.MinP,
	} {
		if from != nil {
			*to = float32(*from)
		}
	}
	if cfg.TopK != nil {
		chosen.TopK = *cfg.TopK
	}
	return chosen
}

// chooseSizes sets the sizes of contexts that the config leaves open. It returns the bytes of one cell of the KV cache.
func (m *Model) chooseSizes(cfg Config, groups []deviceGroup) (perCell float64, err error) {
	f, gpu := &m.Info, groups[0].gpu()
	f.MaxNewTokens = cfg.Agent.MaxNewTokens
	f.KVType = cfg.KVType
	if f.KVType == "" || f.KVType == "auto" {
		f.KVType = "f16"
	}
	info := m.Llama.Info()
	perCell = cellBytes(m.Llama.Metadata(), info.Architecture, f.KVType)
	f.Contexts = max(1, cfg.Contexts)
	each := f.Contexts / len(groups) // contexts that share a model
	f.Threads = cfg.Threads
	if f.Threads == 0 {
		f.Threads = autoThreads()
		if !gpu {
			f.Threads = max(1, f.Threads/f.Contexts)
		}
	}
	cpu := autoParallelCPU
	if f.Attention == GGML {
		cpu = autoParallelGGML
	}
	f.Parallel = choose(cfg.Scheduler.MaxRunning, gpu, autoParallelGPU, cpu)
	f.ContextLength = cfg.ContextLength
	switch keeps := info.SlidingWindow > 0 || info.Recurrent || info.Hybrid; {
	case keeps && cfg.Scheduler.DraftRows > 0:
		return 0, fmt.Errorf("Config.Scheduler.DraftRows %d can't be used with this model: its sliding window or recurrent state can't take draft tokens back; remove it", cfg.Scheduler.DraftRows)
	case cfg.Scheduler.DraftRows >= 0:
		f.DraftRows = cfg.Scheduler.DraftRows
	case !keeps && cfg.FixedTokens == 0:
		f.DraftRows = choose(0, gpu, autoDraftGPU, autoDraftCPU)
	}
	if f.ContextLength == 0 {
		now := llama.Devices()
		free := groups[0].freeMemory(now)
		for _, g := range groups[1:] {
			free = min(free, g.freeMemory(now))
		}
		limit := contextLimit(gpu, info.ContextTrain, f.Contexts, f.SizeBytes, perCell)
		f.ContextLength = fitContext(info.ContextTrain, limit, free/uint64(each), perCell)
		if cfg.Agent.MaxNewTokens >= f.ContextLength {
			return 0, fmt.Errorf("Config.Agent.MaxNewTokens %d leaves no space for a prompt in the chosen context of %d tokens; lower it or set Config.ContextLength", cfg.Agent.MaxNewTokens, f.ContextLength)
		}
	}
	if f.ContextTrain > 0 && cfg.Agent.MaxNewTokens >= f.ContextTrain { // the cache may be larger, to hold several sequences
		return 0, fmt.Errorf("Config.Agent.MaxNewTokens %d leaves no space for a prompt in the %d tokens that the model was trained on; lower it", cfg.Agent.MaxNewTokens, f.ContextTrain)
	}
	// A step has at most as many tokens as the cache.
	f.BatchSize = min(choose(cfg.Scheduler.BatchTokens, gpu, autoBatchGPU, autoBatchCPU), f.ContextLength)
	return perCell, nil
}

// startEngine makes the contexts and the scheduler over them.
func (m *Model) startEngine(ctx context.Context, cfg Config, groups []deviceGroup, perCell float64) error {
	f, gpu := &m.Info, groups[0].gpu()
	each := f.Contexts / len(groups) // contexts that share a model
	free, kv := budget.Free(budget.System), uint64(float64(f.Contexts)*float64(f.ContextLength)*perCell)
	logCache(cfg.Log, f, kv, free, gpu)
	var contexts []scheduler.Context
	for i, group := range groups {
		for range each {
			contexts = append(contexts, scheduler.Context{Model: m.copies[i], Options: m.contextOptions(gpu), Device: group.describe()})
		}
	}
	if !gpu && free > kv {
		free -= kv // the contexts allocate it later
	}
	hostCells, err := hostCells(cfg.CacheRAM, free, f.Contexts, perCell)
	if err != nil {
		return err
	}
	c := cfg.Scheduler
	c.MaxRunning, c.BatchTokens, c.DraftRows, c.HostCells = f.Parallel, f.BatchSize, f.DraftRows, hostCells
	c.PrefillChunk, c.Threads = 0, 0
	if gpu {
		c.PrefillChunk = min(prefillChunkGPU, f.BatchSize)
	}
	if cfg.Threads == 0 && !gpu && f.Contexts == 1 { // several would measure each other's trials
		c.Threads = f.Threads
	}
	engine, err := scheduler.New(ctx, contexts, c, cfg.Log)
	switch {
	case errors.Is(err, scheduler.ErrNoHostCache):
		return fmt.Errorf("Config.CacheRAM %d can't be used with this model: its sliding window or recurrent state can't be kept in parts; remove it", cfg.CacheRAM)
	case ctx.Err() != nil && err != nil:
		return fmt.Errorf("loading was stopped: %w", ctx.Err())
	case errors.Is(err, scheduler.ErrNotFinite):
		return fmt.Errorf("the model %s can't serve: %w; its file is damaged, or was not converted correctly", f.Path, err)
	case errors.Is(err, llama.ErrIncompatible):
		return fmt.Errorf("the engine could not start: %w", err)
	case err != nil:
		return fmt.Errorf("the engine could not start with Config.Contexts %d, Config.ContextLength %d, Config.Scheduler.BatchTokens %d, Config.KVType %s: %w; lower the first two or use a smaller KV cache type such as q8_0", f.Contexts, f.ContextLength, f.BatchSize, f.KVType, err)
	}
	m.Engine = engine
	f.Placement = engine.Placement()
	return nil
}

// logCache says why the start takes seconds: gigabytes are zeroed. If a host has fewer free (0: unknown), the system
// may end the process. Models with windows need less.
func logCache(log zerolog.Logger, f *EngineInfo, bytes, free uint64, gpu bool) {
	line := log.Info()
	if !gpu && free > 0 && bytes > free {
		line = log.Warn().Str("free", fmt.Sprintf("%.0f MB", float64(free)/1e6)).
			Str("fix", "if the system kills agentd, lower the context length or the contexts, or use a smaller KV cache type")
	}
	line.Int("contexts", f.Contexts).Int("tokens", f.ContextLength).
		Str("size", fmt.Sprintf("%.0f MB", float64(bytes)/1e6)).Msg("allocating the KV cache")
}

// choose returns given if it is not 0, else the default for the device.
func choose(given int, gpu bool, onGPU, onCPU int) int {
	switch {
	case given > 0:
		return given
	case gpu:
		return onGPU
	}
	return onCPU
}

// loadError adds what to change to the error of a model that could not be loaded.
func loadError(path, mode string, err error) error {
	if strings.Contains(err.Error(), "SPLIT_MODE_TENSOR not implemented") { // llama.cpp's words
		return fmt.Errorf("Config.SplitMode %s: llama.cpp can't divide the model %s in this way: %w; use layer", mode, path, err)
	}
	switch {
	case errors.Is(err, llama.ErrIsVision):
		return fmt.Errorf("%s is the vision part of a model (mmproj), and agentd has no vision: name the language model's own file with Config.Path", path)
	case errors.Is(err, llama.ErrIsAdapter):
		return fmt.Errorf("%s is a LoRA adapter, not a model: name the model for which it was made with Config.Path, and this file with Config.LoRA", path)
	}
	return fmt.Errorf("the model %s could not be loaded: %w; check that it is a complete GGUF file and fits into memory", path, err)
}

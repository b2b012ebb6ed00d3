package inference

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/agent"
	"agentd/llama"
	"agentd/llama/synth"
	"agentd/models/household/weights"
	"agentd/scheduler"
	"agentd/scheduler/generation"
)

// Open loads a model and starts its engine. It ends early when ctx does.
// Errors name the file or the option and what to change.
func Open(ctx context.Context, opts Options) (s *Service, err error) {
	if err := llama.Init(opts.Log); err != nil {
		return nil, err
	}
	if opts.Build != "" {
		llama.SetBuild(opts.Build)
	}
	if opts.FixedTokens > 0 {
		opts.MaxNewTokens = opts.FixedTokens
	}
	place, err := placement(opts)
	if err != nil {
		return nil, err
	}
	s = &Service{queueLimit: opts.QueueLimit, latency: newLatency()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
			s = nil
		}
	}()
	groups, err := place.split(max(1, opts.Contexts), len(opts.TensorSplit) > 0)
	if err != nil {
		return s, err
	}
	if err := s.loadModels(ctx, opts, groups); err != nil {
		return s, err
	}
	s.info.Device = place.describe()
	if err := ctx.Err(); err != nil {
		return s, err
	}
	if err := s.loadTemplate(opts); err != nil {
		return s, err
	}
	perCell, err := s.chooseSizes(opts, groups)
	if err != nil {
		return s, err
	}
	if err := s.makeAgent(opts); err != nil {
		return s, err
	}
	return s, s.startEngine(opts, groups, perCell)
}

// loadModels reads the model file, or the embedded one, for each group of devices,
// and refuses what the quantization option does not allow.
func (s *Service) loadModels(ctx context.Context, opts Options, groups []placed) error {
	path := opts.Path
	if path == "" {
		var err error
		if path, err = weights.Path(""); err != nil {
			return fmt.Errorf("the default model needs a file in the cache: %w; set XDG_CACHE_HOME to a directory that can be written to, or name a GGUF file with --model", err)
		}
	}
	for i, group := range groups {
		load := []llama.ModelOption{
			llama.SetCancel(ctx),
			llama.SetGPULayers(group.layers),
			llama.SetDevices(group.devices...),
		}
		if opts.Path == "" {
			// Its file lies in a cache, where anyone may clean up. It is small, and read as fast as it is mapped.
			load = append(load, llama.SetMMap(false))
		}
		if opts.Progress != nil {
			load = append(load, llama.SetProgress(func(part float32) { opts.Progress((float32(i) + part) / float32(len(groups))) }))
		}
		if n := len(group.gpus); len(opts.TensorSplit) > 0 && group.gpu() {
			load = append(load, llama.SetTensorSplit(opts.TensorSplit[i*n:(i+1)*n]...))
		}
		model, err := llama.New(path, load...)
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("loading was stopped: %w", ctx.Err())
			}
			return fmt.Errorf("the model %s could not be loaded: %w; check that it is a complete GGUF file and fits into memory", path, err)
		}
		s.models = append(s.models, model)
	}
	s.model = s.models[0]
	info := s.model.Info()
	s.info = EngineInfo{
		Path:           path,
		Default:        opts.Path == "",
		Name:           info.Name,
		Architecture:   info.Architecture,
		Description:    info.Description,
		Parameters:     info.Params,
		Bytes:          info.SizeBytes,
		TrainedContext: info.ContextTrain,
		GPULayers:      groups[0].layers,
	}
	return checkQuantization(opts.Quantization, path, info)
}

// checkQuantization holds a model against --quantization none.
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
		return fmt.Errorf("%s is quantized (%s), which --quantization none refuses: use --quantization auto, or an F16, BF16 or F32 file", path, info.FileType)
	default:
		return nil
	}
	return fmt.Errorf("%s is %s, which needs --quantization auto", path, what)
}

// loadTemplate parses the chat template, the user's or the model's.
func (s *Service) loadTemplate(opts Options) error {
	template, err := s.model.NewTemplate(opts.ChatTemplate)
	if err != nil {
		if opts.ChatTemplate == "" && errors.Is(err, llama.ErrNoTemplate) {
			return nil // qwen, gpt-oss and llama prompts need none
		}
		return fmt.Errorf("chat template: %w", err)
	}
	s.template = template
	return nil
}

// makeAgent makes the agent for the model's prompt format.
func (s *Service) makeAgent(opts Options) error {
	source := ""
	if s.template != nil {
		source = s.template.Source()
	}
	s.info.Sampling = sampling(opts, s.model)
	var err error
	if s.info.Agent = cmp.Or(opts.Agent, agent.FullHistory); s.info.Agent == agent.HistorySummarized {
		if s.info.Summary, err = s.summary(opts); err != nil {
			return err
		}
	}
	made, err := agent.New(agent.Config{
		Kind:               s.info.Agent,
		Summary:            s.info.Summary,
		Format:             opts.Format,
		Architecture:       s.info.Architecture,
		ChatTemplate:       source,
		ContextLength:      s.Window(),
		EnableThinking:     opts.EnableThinking,
		ReasoningEffort:    opts.ReasoningEffort,
		OutputStyle:        opts.OutputStyle,
		MixedOutput:        opts.MixedOutput,
		CallsPerRobot:      opts.CallsPerRobot,
		DefaultRobot:       opts.DefaultRobot,
		Constrain:          opts.Constrain,
		MaxNewTokens:       opts.MaxNewTokens,
		IgnoreEnd:          opts.FixedTokens > 0,
		KeepRepeating:      opts.NoRepetitionStop,
		HistoryMaxMessages: opts.HistoryMaxMessages,
		Sampling:           s.info.Sampling,
		Seed:               opts.Seed,
		PromptLogDir:       opts.PromptLogDir,
		LogError:           func(err error) { opts.Log.Warn().Err(err).Msg("prompt log") },
	}, newToolkit(s.model.Vocab(), s.template, time.Now()), s.model.Vocab())
	if err != nil {
		return err
	}
	s.agent = made
	s.info.Format = made.Format()
	return nil
}

// sampling merges the user's parameters, the model file's and the protocol's.
func sampling(opts Options, model *llama.Model) generation.Sampling {
	chosen := agent.DefaultSampling
	temperature, topP, topK := model.SamplingDefaults()
	if temperature != nil && *temperature > 0 { // 0 is greedy, which inference_mode asks for
		chosen.Temperature = *temperature
	}
	if topP != nil && *topP > 0 && *topP <= 1 {
		chosen.TopP = *topP
	}
	if topK != nil && *topK >= 0 {
		chosen.TopK = *topK
	}
	if opts.Temperature != nil {
		chosen.Temperature = float32(*opts.Temperature)
	}
	if opts.TopP != nil {
		chosen.TopP = float32(*opts.TopP)
	}
	if opts.TopK != nil {
		chosen.TopK = *opts.TopK
	}
	if opts.MinP != nil {
		chosen.MinP = float32(*opts.MinP)
	}
	return chosen
}

// chooseSizes decides what the options left open about contexts, and returns how many
// bytes a cell of the KV cache takes.
func (s *Service) chooseSizes(opts Options, groups []placed) (perCell float64, err error) {
	f, gpu := &s.info, groups[0].gpu()
	f.Contexts = max(1, opts.Contexts)
	each := f.Contexts / len(groups) // contexts that share a model
	f.KVType = opts.KVType
	if f.KVType == "" || f.KVType == "auto" {
		f.KVType = "f16"
	}
	f.Threads = opts.Threads
	if f.Threads == 0 {
		f.Threads = autoThreads()
		if !gpu {
			f.Threads = max(1, f.Threads/f.Contexts)
		}
	}
	f.Attention = attention(gpu, opts.GGMLAttention)
	cpu := autoParallelCPU
	if f.Attention == "ggml" {
		cpu = autoParallelGGML
	}
	f.Parallel = choose(opts.Parallel, gpu, autoParallelGPU, cpu)
	f.ContextLength = opts.ContextLength
	info := s.model.Info()
	switch keeps := info.SlidingWindow > 0 || info.Recurrent || info.Hybrid; {
	case keeps && opts.DraftRows > 0:
		return 0, fmt.Errorf("--draft-rows %d can't be used with this model: it has a sliding window or a recurrent state, which can't take guesses back; remove it", opts.DraftRows)
	case opts.DraftRows >= 0:
		f.DraftRows = opts.DraftRows
	case !keeps && !opts.Reproducible && opts.FixedTokens == 0:
		f.DraftRows = choose(0, gpu, autoDraftGPU, autoDraftCPU)
	}
	perCell = cellBytes(s.model.Metadata(), info.Architecture, info.Layers, info.Embedding, f.KVType)
	if f.ContextLength == 0 {
		now := llama.Devices()
		free := groups[0].freeMemory(now)
		for _, g := range groups[1:] {
			free = min(free, g.freeMemory(now))
		}
		f.ContextLength = fitContext(info.ContextTrain, choose(0, gpu, autoContextGPU, autoContextCPU), free/uint64(each), perCell)
		if opts.MaxNewTokens >= f.ContextLength {
			return 0, fmt.Errorf("--max-new-tokens %d leaves no room for a prompt in the context of %d tokens that was chosen; lower it or set --context-length", opts.MaxNewTokens, f.ContextLength)
		}
	}
	if f.TrainedContext > 0 && opts.MaxNewTokens >= f.TrainedContext { // the cache may be larger, to hold several sequences
		return 0, fmt.Errorf("--max-new-tokens %d leaves no room for a prompt in the %d tokens that the model was trained on; lower it", opts.MaxNewTokens, f.TrainedContext)
	}
	// No step can hold more tokens than the cache.
	f.BatchSize = min(choose(opts.BatchSize, gpu, autoBatchGPU, autoBatchCPU), f.ContextLength)
	return perCell, nil
}

// startEngine makes the contexts and the scheduler over them.
func (s *Service) startEngine(opts Options, groups []placed, perCell float64) error {
	f, gpu := &s.info, groups[0].gpu()
	each := f.Contexts / len(groups) // contexts that share a model
	// Gigabytes are zeroed now, which takes seconds after the model is in memory.
	opts.Log.Info().Int("contexts", f.Contexts).Int("tokens", f.ContextLength).Str("size", fmt.Sprintf("%.0f MB", float64(f.Contexts)*float64(f.ContextLength)*perCell/1e6)).
		Msg("allocating the KV cache")
	var contexts []scheduler.Context
	for i, group := range groups {
		for range each {
			contexts = append(contexts, scheduler.Context{Model: s.models[i], Options: s.contextOptions(gpu), Device: group.describe()})
		}
	}
	free := hostMemory()
	if kv := uint64(float64(f.Contexts) * float64(f.ContextLength) * perCell); !gpu && free > kv {
		free -= kv // which is allocated after this
	}
	hostCells, err := hostCells(opts.CacheRAM, free, f.Contexts, perCell)
	if err != nil {
		return err
	}
	engine, err := scheduler.New(contexts, s.schedulerConfig(opts, gpu, hostCells), opts.Log)
	if errors.Is(err, scheduler.ErrNoHostCache) {
		return fmt.Errorf("--cache-ram %d can't be used with this model: it has a sliding window or a recurrent state, which can't be kept in parts; remove it", opts.CacheRAM/1e6)
	}
	if err != nil {
		return fmt.Errorf("the engine could not start with --contexts %d, --context-length %d, --batch-size %d, --dtype %s: %w; lower the first two or use a smaller KV cache type such as q8_0", f.Contexts, f.ContextLength, f.BatchSize, f.KVType, err)
	}
	s.engine = engine
	return nil
}

// choose is the given number, else the default of the device.
func choose(given int, gpu bool, onGPU, onCPU int) int {
	switch {
	case given > 0:
		return given
	case gpu:
		return onGPU
	}
	return onCPU
}

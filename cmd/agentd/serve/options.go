package serve

import (
	"slices"

	"agentd/agent"
	"agentd/cmd/internal/cli"
	"agentd/coaching"
	"agentd/inference"
	"agentd/internal/options"
	"agentd/internal/version"
	"agentd/scheduler/remote"
)

// Headings of the help page.
const (
	GroupModel    = "Model"
	GroupFormat   = "Prompt and output"
	groupSampling = "Sampling (used when a request does not ask for inference_mode true)"
	GroupPlace    = "Placement and speed"
	GroupEngine   = "Engine"
	groupHTTP     = "HTTP"
	groupCoaching = "Coaching"
)

var (
	formatAliases = map[string]string{"harmony": "gpt-oss", "gpt_oss": "gpt-oss", "magma": "template"}
	dtypes        = []string{"auto", "f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"}
	dtypeAliases  = map[string]string{"float32": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16"}

	// OnOff maps the words of JSON to those of an option.
	OnOff = map[string]string{"true": "on", "false": "off"}
)

// Command is the command line that fills c.
func (c *Config) Command() *options.Command {
	return &options.Command{
		Name:    "agentd",
		Version: version.Line("agentd"),
		Intro:   helpIntro(),
		Outro:   helpOutro,
		Options: slices.Concat(c.model(), c.format(), c.sampling(), c.placement(), c.engine(), c.http(), c.coaching(), c.files()),
		Env:     "AGENTD_",
		File: &options.File{
			Option:   "config",
			Object:   "model",
			Groups:   []string{GroupModel, GroupFormat, groupSampling, GroupPlace},
			Inner:    map[string]string{"model": "path", "model-format": "format"},
			Nullable: []string{"prompt-log-dir", "chat-template", "history-max-messages"}, // in files of the protocol's first implementation
		},
		Hints: hints,
	}
}

func (c *Config) model() []options.Option {
	option := options.In(GroupModel)
	m, a := &c.Inference, &c.Inference.Agent
	return []options.Option{
		option("model", "FILE", "GGUF file to serve; of a split model its first file. Default: the default model, which decides for robots in small simulated households and knows nothing else.", options.Text(&m.Path)),
		option("lora", "NAME=FILE", "LoRA adapter in GGUF for the model; may be repeated. Inputs with extra_keys.adapter NAME use it, others the model alone. A context computes one adapter at a time; --contexts serves several at once.", loraFiles(&m.LoRA)),
		option("weights-dir", "DIR", "Directory whose files may replace the model or become adapters while the server runs, by PUT /v1/weights. It needs a token with the right weights in --auth-token-file. Each model step then tells the version of the weights. Default: weights can't change.", options.Text(&m.WeightsDir)),
		option("model-format", "NAME", "Prompt and output format of the model: auto, qwen, gpt-oss (or harmony), llama (Llama 3.1 and later), template (or magma).", options.Choice(&a.Format, []string{"auto", "qwen", "gpt-oss", "llama", "template"}, formatAliases)),
		option("quantization", "MODE", "auto serves any file. none refuses a quantized one; GPT-OSS and natively quantized files need auto.", options.Choice(&m.Quantization, []string{"auto", "none"}, nil).Refuse(refuseQuantization)),
		option("dtype", "TYPE", "Element type of the KV cache: auto (f16), f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl. float32, float16 and bfloat16 are accepted.", options.Choice(&m.KVType, dtypes, dtypeAliases)),
		option("context-length", "TOKENS", "Size of the KV cache. All running candidates and the prefix cache share it. One candidate also never exceeds the context that the model was trained on. auto: 32768; on a GPU up to 131072 if the model was trained on more, as far as memory allows.", options.IntOr(&m.ContextLength, minContext, maxContext, "auto", 0)),
		option("max-new-tokens", "TOKENS", "Longest answer of one candidate. A candidate that reaches it ends with the error truncated. auto: 1024, with the default model 256.", options.IntOr(&a.MaxNewTokens, 1, maxContext, "auto", -1)),
	}
}

func (c *Config) format() []options.Option {
	option := options.In(GroupFormat)
	a, f := &c.Inference.Agent, &c.Inference.Agent.Prompt
	return []options.Option{
		option("chat-template", "FILE|TEXT", "Jinja template in place of the model's own: a file, or the template itself. --model-format template renders it. qwen, gpt-oss and llama have their own prompts; qwen takes from it which of its variants the model is.", options.Text(&f.ChatTemplate)),
		option("output-style", "STYLE", "Output that the template format expects: qwen_format or json.", options.Choice(&f.OutputStyle, []string{"qwen_format", "json"}, nil)),
		option("agent", "KIND", "full-history shows the model the whole history. history-summarized replaces the history by a summary when the prompt exceeds --summary-budget; it has no coaching. Each continues with the memory of the other.", options.Choice(&a.Kind, []string{agent.FullHistory, agent.HistorySummarized}, nil)),
		option("summary-budget", "N", "Largest prompt of --agent history-summarized, in --summary-unit. auto: 5000 tokens, or less in a small context; 4 characters for each token.", options.IntOr(&a.Summary.Budget, 1, maxContext, "auto", 0)),
		option("summary-unit", "UNIT", "Unit of --summary-budget: tokens or characters.", options.Either(&a.Summary.Characters, unitTokens, unitCharacters)),
		option("summary-max-tokens", "TOKENS", "Longest summary; a longer one is truncated. auto: 1024, or a quarter of the budget if that is less.", options.IntOr(&a.Summary.MaxTokens, 1, maxContext, "auto", 0)),
		option("summary-keep", "N", "Newest messages that stay in the history beside a summary, as far as the budget allows.", options.Int(&a.Summary.Keep, 0, maxHistory)),
		option("constrain", "on|off", "on keeps every tool call valid while it is generated. off only checks it afterwards.", options.Choice(&a.Constrain, []string{"on", "off"}, OnOff)),
		option("forced-tokens", "on|off", "on appends tokens that the grammar forces, such as the rest of a tool's name, without sampling them. off samples every token, for comparisons.", options.Either(&c.Inference.Scheduler.NoForcedTokens, "on", "off")),
		option("repetition-stop", "on|off", "on ends a candidate that repeats itself with the error truncated: after the same eight tokens or more four times in a row, or the same call again. off lets it continue. Not with --fixed-tokens.", options.Either(&a.KeepRepeating, "on", "off")),
		option("mixed-output", "MODE", "Text beside tool calls: reject makes it an invalid output, tools keeps the calls and drops the text.", options.Choice(&f.MixedOutput, []string{"reject", "tools"}, map[string]string{"error": "reject"})),
		option("calls-per-robot", "one|any", "one: a second call for the same robot is the candidate error invalid_output. any: a robot may have several calls.", options.Choice(&f.CallsPerRobot, []string{"one", "any"}, nil)),
		option("return", "LIST", "What each model step tells beside the decision where an input has no extra_keys.return: token_ids, logprobs or forced_logprobs, separated by commas. For clients that can't send that key, such as MAGMA's tools. Default: nothing.", options.WordsOf(&a.Return, len(agent.ReturnNames), agent.ReturnNames)),
		option("default-robot", "NAME", "Robot of a tool call that names none when several or none are known.", options.Text(&a.DefaultRobot)),
		option("enable-thinking", "", "Let Qwen models think before they answer. A decision never contains the thoughts.", options.Bool(&f.EnableThinking)),
		option("reasoning-effort", "LEVEL", "How long GPT-OSS models reason: low, medium, high.", options.Choice(&f.ReasoningEffort, []string{"low", "medium", "high"}, nil)),
		option("history-max-messages", "N", "Show the model only the newest N messages of the history. The memory keeps all. 0: no limit.", options.Int(&a.HistoryMaxMessages, 0, maxHistory)),
	}
}

func (c *Config) sampling() []options.Option {
	option := options.In(groupSampling)
	m := &c.Inference
	return []options.Option{
		option("temperature", "X", "Default: the model file's value, else 0.6. Requests with inference_mode true do not sample.", options.OptionalFloat(&m.Temperature, 0.01, 10)),
		option("top-p", "X", "Default: the model file's value, else 0.95.", options.OptionalFloat(&m.TopP, 0.01, 1)),
		option("top-k", "N", "Default: the model file's value, else 20. 0: no limit.", options.OptionalInt(&m.TopK, 0, 1<<20)),
		option("min-p", "X", "Default: 0, off.", options.OptionalFloat(&m.MinP, 0, 1)),
		option("seed", "N", "Base of the candidates' seeds. The same request to a freshly started server gives the same answers.", options.Uint64(&m.Agent.Seed)),
	}
}

func (c *Config) placement() []options.Option {
	option := options.In(GroupPlace)
	m, s := &c.Inference, &c.Inference.Scheduler
	return []options.Option{
		option("device", "NAMES", "auto, cpu, or device names separated by commas, such as CUDA0,CUDA1.", options.Words(&m.Device)),
		option("gpu-layers", "N|all", "Model layers to put on the GPU. The rest stays on the CPU.", options.IntOr(&m.GPULayers, 0, maxLayers, "all", -1)),
		option("tensor-split", "LIST", "Share of the model for each device, such as 3,1.", options.Shares(&m.TensorSplit)),
		option("split-mode", "HOW", "How a model is divided among several devices. layer: some of the layers on each. tensor: matrices, attention and KV cache in parts, all devices at once; not for every architecture. row: each matrix by rows; CUDA and Vulkan of the pinned llama.cpp do not have it.", options.Choice(&m.SplitMode, []string{"layer", "row", "tensor"}, nil)),
		option("contexts", "N", "Contexts that share the work, each with its own KV cache, batch and threads. Of several GPUs each one, or each group of them, loads the whole model: --device CUDA0,CUDA1 --contexts 2 runs one context on each. A request goes to the context whose cache has its prefix, unless another would finish it sooner with a copy. Work that fails on one context is retried on another. auto: 1; for a model of at most 256 MiB on the CPU 2, which keep more speed beside busy programs. With --threads N or --reproducible, and for models with a sliding window or a recurrent state, it is 1.", options.IntOr(&m.Contexts, 1, maxContexts, "auto", 0)),
		option("prefix-cache", "on|off", "off computes every prompt from its first token, for comparisons. Candidates of one input still share their prompt.", options.Either(&s.NoPrefixCache, "on", "off")),
		option("cache-ram", "MB", "Host memory for prefixes evicted from the KV cache, for all contexts together. A prompt that begins with such a prefix copies it back and does not compute it again. It helps when the histories of all agents exceed the KV cache. Not for models with a sliding window or a recurrent state. 0: none.", options.Int(&m.CacheRAM, 0, maxCacheRAM)),
		option("parallel", "N", "Candidates generated at the same time in each context.", options.IntOr(&s.MaxRunning, 1, maxSequences, "auto", 0)),
		option("draft-rows", "N", "Fill each step of the model up to N tokens with draft tokens: what followed the same text earlier in a candidate's prompt or answer. An accepted draft token saves a step. Answers are the same but for rounding. No draft tokens while N candidates or more decode, with --reproducible, and for models with a sliding window or a recurrent state. 0: never. auto: 2, on a GPU 8; 0 with --fixed-tokens.", options.IntOr(&s.DraftRows, 0, maxDraftRows, "auto", -1)),
		option("batch-size", "TOKENS", "Most tokens that the model computes in one step.", options.IntOr(&s.BatchTokens, minBatch, maxBatch, "auto", 0)),
		option("threads", "N", "CPU threads of the model. auto: physical cores, minus one where there are more than four; fewer while other programs use the processors and fewer threads are faster. Several --contexts divide them among those that have work. A number is fixed, for each context.", options.IntOr(&m.Threads, 1, maxThreads, "auto", 0)),
		option("reproducible", "", "Compute each input alone and from its first token, so that with inference_mode the same input gives the same bytes, whatever the load and the cache. On x86 CPUs with AVX2 that holds without this option. On devices rounding may else decide between tokens that are almost equally probable. Takes several times as long. Contexts on devices of different kinds still differ.", options.Bool(&s.BatchInvariant)),
		option("cpu-attention", "HOW", "How the CPU computes attention: shared reads a prefix once for all candidates and agents that share it. It rounds to BF16 on processors with products of BF16, for models whose own products round as much. f32 does not round. ggml leaves attention and the logits to llama.cpp, for comparisons.", options.Choice(&m.CPUAttention, []string{inference.Shared, inference.F32, inference.GGML}, nil)),
		option("device-attention", "HOW", "How a GPU computes attention. dense goes through all cells of the KV cache up to the last one in use. gather lists the cells that each row sees and reads only these, for CUDA and Vulkan; it is for many agents and has not run on CUDA hardware. auto: dense, until gather has been measured there.", options.Choice(&m.DeviceAttention, []string{"auto", inference.Gather, inference.Dense}, nil)),
		option("queue-limit", "N", "Candidates admitted at a time, waiting or running. A request that does not fit is answered 503 with Retry-After.", options.Int(&s.QueueLimit, 1, maxQueue)),
		option("queue-time", "TIME", "Longest expected wait of a new request, such as 5s. A request that would probably wait longer is answered 503 with Retry-After. For clients that have no use for late answers. 0s: no limit.", options.Duration(&s.QueueTime, 0, maxDuration)),
		option("stuck", "report|exit", "What follows when a step of the model does not end, because a thread or a device hangs. report: /health is 503 and names the context until the step ends. exit: the process also ends, with a nonzero status, for a supervisor that restarts it.", options.Either(&c.StuckExit, "report", "exit")),
		option("fixed-tokens", "N", "For benchmarks only: every answer has exactly N unconstrained tokens, so that any weights are the same load. 0: off.", options.Int(&m.FixedTokens, 0, maxContext)),
	}
}

func (c *Config) engine() []options.Option {
	option := options.In(GroupEngine)
	e := &c.Inference.Remote
	return []options.Option{
		option("engine", "URL,...", "Engines that generate instead of the embedded llama.cpp: vLLM, SGLang, llama-server or another agentd, all with the same model. --model then names a GGUF file or a Hugging Face directory with the model's vocabulary. Several URLs share the work: a run stays with one engine while that is not behind.", options.List(&e.URLs, maxEngines)),
		option("engine-api", "API", "API of the engines: auto asks them, else vllm (also agentd), sglang, llama-server.", options.Choice(&e.API, remote.APIs, nil)),
		option("engine-key-file", "FILE", "File with the key of the engines, sent as a bearer token.", options.SecretFile(&e.KeyFile)),
		option("engine-model", "NAME", "The engines' name of the model. Default: the first one that they list.", options.Text(&e.Model)),
		option("engine-retries", "N", "How often a candidate is generated again that breaks its grammar, which other engines can't enforce in full.", options.Int(&e.Retries, 0, remote.MaxRetries)),
	}
}

func (c *Config) http() []options.Option {
	option := options.In(groupHTTP)
	s := &c.Server
	return slices.Concat(
		c.HTTP.Options(groupHTTP,
			"Address to listen on. 0.0.0.0 opens the server to the network; consider --auth-token-file.",
			"Bearer tokens, one a line, of at least 16 characters; # begins a comment line. Every path but /health then needs one. NAME:TOKEN names a client for the request log and the metrics agentd_client_*. NAME+weights:TOKEN may also change the weights."),
		[]options.Option{
			option("agent-version", "TEXT", "agent_version in /v1/info. Orchestrators compare it when they resume or export a run. The default changes with each release of agentd.", options.Text(&s.Info.AgentVersion)),
			option("loading-wait", "TIME", "How long requests wait while the model loads before they are answered 503 with Retry-After. /health and /v1/info answer at once. 0s: nothing waits.", options.Duration(&s.LoadingWait, 0, maxDuration)),
			option("completions", "", "Serve OpenAI's /v1/completions, /v1/chat/completions and /v1/models, and /tokenize, on the same model and queue. An agentd uses another one as its --engine this way.", options.Bool(&s.Completions)),
			option("request-timeout", "TIME", "Time limit of a request. Candidates that are not done by then end with the error timeout. 0s: no limit.", options.Duration(&s.RequestTimeout, 0, maxDuration)),
			option("drain-timeout", "TIME", "How long work in flight may continue after SIGTERM, SIGINT or SIGHUP. A signal a second later, or more, ends the server at once.", options.Duration(&c.DrainTimeout, 0, maxDuration)),
		})
}

func (c *Config) coaching() []options.Option {
	option := options.In(groupCoaching)
	s := &c.Coaching
	return []options.Option{
		option("coaching", "on|off", "off refuses coaching sessions and requests, and /v1/info says so. Corrections through /v1/responses still work.", options.Either(&c.NoCoaching, "on", "off")),
		option("coaching-allow", "LIST", "Where coaches may be, since clients name them: host names, *.example.org, addresses and networks such as 10.0.0.0/8, separated by commas or in several --coaching-allow. Default: any public or loopback address. Link-local and cloud metadata addresses are never allowed.", options.List(&c.CoachingAllow, maxCoachingAllow)),
		option("coach-human", "URL", "Endpoint of people who coach every session beside its backends, such as agentd console. It may be at a private address. Sessions with the provider human keep their own. Default: none.", options.Text(&s.People.Endpoint)),
		option("coach-human-when", "WHEN", "When --coach-human asks people: first, before the backends, which are asked when no person answers; or failed, when no backend gave a correction. A person who skips a task ends it.", options.Choice(&s.People.When, []string{coaching.PeopleFirst, coaching.PeopleFailed}, nil)),
		option("coaching-workers", "N", "Requests of one session in work at the same time.", options.Int(&s.Workers, 1, maxCoaching)),
		option("coaching-queue", "N", "Requests of one session that wait for a worker. The next one is answered 503 with Retry-After.", options.Int(&s.Queue, 0, maxCoaching)),
		option("coaching-sessions", "N", "Sessions at a time. The next one is answered 503 with Retry-After.", options.Int(&s.MaxSessions, 1, maxCoaching)),
		option("coaching-idle", "TIME", "Close sessions that were unused for this time. 0s: never.", options.Duration(&s.Idle, 0, maxDuration)),
		option("store", "URL", "PostgreSQL database for coaching sessions, such as postgres://user@host/database. Several servers may share it: each answers for every session, and sessions survive restarts. Needs --store-key-file. AGENTD_STORE or PGPASSWORD keeps the password out of the process list. Default: memory.", options.Text(&c.Store)),
		option("store-key-file", "FILE", "Keys that encrypt sessions in --store, since they hold the headers of backends. One a line, of 32 bytes in hexadecimal digits or base64, the same for all servers. The first key encrypts, all decrypt. openssl rand -hex 32 makes one.", options.SecretFile(&c.StoreKeyFile)),
		option("coaching-max-steps", "N", "Longest trajectory of a request, in steps.", options.Int(&s.MaxSteps, 1, maxCoachingSteps)),
	}
}

func (c *Config) files() []options.Option {
	option := options.In(cli.GroupLogs)
	return slices.Concat([]options.Option{
		option("prompt-log-dir", "DIR", "Write every prompt and raw output into this directory. The files contain user text.", options.Text(&c.Inference.Agent.PromptLogDir)),
		option("pprof", "ADDRESS", "Serve Go profiles at /debug/pprof/ on a second address of this machine, such as 127.0.0.1:6060. Default: off.", options.Text(&c.Pprof)),
		option("otlp-endpoint", "URL", "Send OpenTelemetry traces to this collector by OTLP/HTTP, such as http://127.0.0.1:4318; /v1/traces is appended. The variables OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER and others of the standard hold too. Default: none.", options.Text(&c.Tracing.Endpoint)),
		option("otlp-content", "", "Add the texts of prompts and answers to traces, up to 16 KiB for each span and side.", options.Bool(&c.Tracing.Content)),
	}, c.Log.Options(), []options.Option{
		option("config", "FILE", "JSON configuration file.", options.Text(&c.File)),
	})
}

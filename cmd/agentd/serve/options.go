package serve

import (
	"slices"
	"time"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/coaching"
	"agentd/internal/base/version"
	"agentd/llama"
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
	dtypes       = []string{"auto", "f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"}
	dtypeAliases = map[string]string{"float32": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16"}

	// OnOff maps the words of JSON to the words of an option.
	OnOff = map[string]string{"true": "on", "false": "off"}
)

// Command is the command line that fills c.
func (c *Config) Command() *options.Command {
	return &options.Command{
		Name:    "agentd",
		Version: version.Line("agentd"),
		Intro:   helpIntro + cli.Usage() + helpExamples,
		Outro:   helpOutro,
		Options: slices.Concat(c.model(), c.format(), c.sampling(), c.placement(), c.engine(), c.http(), c.coaching(), c.files(), c.debug()),
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
		option("model", "PATH", "Model to serve: a GGUF file (of a split model the first), or a directory of transformers with config.json and safetensors. Default: the embedded model, which decides for robots in small simulated households only.", options.Text(&m.Path)),
		option("hf", "OWNER/REPO[:FILE]", "Model of a Hugging Face hub, in place of --model. FILE may be a quantization such as Q8_0. Default: the only GGUF file, else Q4_K_M, else Q8_0. docs/models.md has the variables.", options.Text(&c.HF)),
		option("model-alias", "NAME", "Name of the model in /v1/models and in answers of OpenAI's API, in metrics and traces. Default: the name in its file.", options.Text(&m.Alias)),
		option("lora", "NAME=PATH", "LoRA adapter for the model, a GGUF file or a directory of PEFT; may be repeated. Inputs with extra_keys.adapter NAME use it. A context computes one adapter at a time.", loraFiles(&m.LoRA)),
		option("weights-dir", "DIR", "Directory of files that PUT /v1/weights may load as the model or as adapters. That needs a token with the right weights in --auth-token-file. Model steps then report the version of the weights. Default: weights can't change.", options.Text(&m.WeightsDir)),
		option("model-format", "NAME", "Prompt and output format of the model: auto, qwen, gpt-oss (or harmony), llama (Llama 3.1 and later), template (or magma).", options.Choice(&a.Format, append([]string{"auto"}, format.Names...), format.Aliases)),
		option("quantization", "MODE", "auto serves any file. none refuses a quantized one; GPT-OSS and natively quantized files need auto.", options.Choice(&m.Quantization, []string{"auto", "none"}, nil).Refuse(refuseQuantization)),
		option("dtype", "TYPE", "Element type of the KV cache: auto (f16), f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl. float32, float16 and bfloat16 are accepted.", options.Choice(&m.KVType, dtypes, dtypeAliases)),
		option("context-length", "TOKENS", "Size of the KV cache, which running candidates and the prefix cache share. A candidate also never exceeds the context that the model was trained on. auto: 32768; on a GPU up to 131072 if model and memory allow; less for a model of at most 256 MiB on a CPU, whose caches together take 512 MiB.", options.IntOr(&m.ContextLength, minContext, llama.MaxContext, "auto", 0)),
		option("max-new-tokens", "TOKENS", "Longest answer of a candidate; one that reaches it ends with the error truncated. auto: 1024, with the default model 256.", options.IntOr(&a.MaxNewTokens, 1, llama.MaxContext, "auto", -1)),
	}
}

func (c *Config) format() []options.Option {
	option, key := options.In(GroupFormat), options.In("")
	a, f := &c.Inference.Agent, &c.Inference.Agent.Prompt
	return []options.Option{
		option("chat-template", "FILE|TEXT", "Jinja template in place of the model's own: a file, or the template itself. --model-format template renders it. qwen, gpt-oss and llama have their own prompts; qwen finds the model's variant in it.", options.Text(&f.ChatTemplate)),
		option("output-style", "STYLE", "Output that the template format expects, qwen_format or json; or the form in which the model calls, native, bare, fenced or named, instead of asking it at start.", options.Choice(&f.OutputStyle, []string{"qwen_format", "json", "native", "bare", "fenced", "named"}, nil)),
		option("agent", "KIND,KEY=VALUE,...", "The agent, and settings of its summaries.", options.SettingsAfter(
			key("kind", "KIND", "full-history shows the model the whole history. history-summarized replaces it by a summary when the prompt exceeds the budget, and has no coaching. Each continues with the memory of the other.", options.Choice(&a.Kind, []string{agent.FullHistory, agent.HistorySummarized}, nil)),
			key("budget", "N", "largest prompt. auto: 5000 tokens, or less in a small context; 4 characters for each token.", options.IntOr(&a.Summary.Budget, 1, llama.MaxContext, "auto", 0)),
			key("unit", "UNIT", "of the budget, tokens or characters.", options.Either(&a.Summary.Characters, unitTokens, unitCharacters)),
			key("max-tokens", "N", "longest summary. auto: 1024, or a quarter of the budget if that is less.", options.IntOr(&a.Summary.MaxTokens, 1, llama.MaxContext, "auto", 0)),
			key("keep", "N", "newest messages that stay in the history beside a summary, as far as the budget allows.", options.Int(&a.Summary.Keep, 0, maxHistory)),
		)),
		option("mixed-output", "MODE", "Text beside tool calls: reject makes it an invalid output, tools keeps the calls and drops the text.", options.Choice(&f.MixedOutput, []string{"reject", "tools"}, map[string]string{"error": "reject"})),
		option("calls-per-robot", "one|any", "one: a second call for the same robot is the candidate error invalid_output. any: a robot may have several calls.", options.Choice(&f.CallsPerRobot, []string{"one", "any"}, nil)),
		option("return", "LIST", "What each model step reports where an input has no extra_keys.return: token_ids, logprobs, sampling_mask; separated by commas. For clients that can't send that key, such as MAGMA's tools. Default: nothing.", options.ListOf(&a.Return, maxReturns, agent.ReturnName, func(name string) string { return name })),
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
		option("temperature", "X", "Default: the model file's value, else 0.6. extra_keys.inference_mode of a request is greedy.", options.OptionalFloat(&m.Temperature, 0.01, 10).Instead("extra_keys.inference_mode makes a request greedy")),
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
		option("device", "NAMES", "auto, cpu, or device names separated by commas, such as CUDA0,CUDA1. CUDA0=3,CUDA1=1 divides a model by shares.", options.Words(&m.Device)),
		option("gpu-layers", "N|all", "Model layers to put on the GPU. The rest stays on the CPU.", options.IntOr(&m.GPULayers, 0, maxLayers, "all", -1)),
		option("split-mode", "HOW", "How a model is divided among several devices. layer: some of the layers on each. tensor: matrices, attention and KV cache in parts, all devices at once; not for every architecture.", options.Choice(&m.SplitMode, []string{"layer", "tensor"}, nil)),
		option("contexts", "N", "Contexts that share the work, each with its own KV cache, batch and threads. Of several GPUs each one, or each group of them, loads the whole model: --device CUDA0,CUDA1 --contexts 2 runs one context on each. A request goes to the context that has its prefix, unless another would finish it sooner. Work that fails on one is retried on another. auto: 1.", options.IntOr(&m.Contexts, 1, maxContexts, "auto", 0)),
		option("cache-ram", "MB", "Host memory for prefixes evicted from the KV caches of all contexts. A prompt that begins with such a prefix copies it back. It helps when the histories of all agents exceed the KV cache. Not for models with a sliding window or a recurrent state. 0: none.", options.Int(&m.CacheRAM, 0, maxCacheRAM)),
		option("parallel", "N", "Candidates generated at the same time in each context.", options.IntOr(&s.MaxRunning, 1, maxSequences, "auto", 0)),
		option("threads", "N", "CPU threads of the model. auto: physical cores, minus one where there are more than four; fewer beside other programs where that is faster. Several --contexts have equal parts of them. A number is fixed, for each context.", options.IntOr(&m.Threads, 1, maxThreads, "auto", 0)),
		option("reproducible", "", "Give the same input the same bytes with inference_mode, whatever the load and the cache. On x86 CPUs with AVX2 most models do that without this option. Elsewhere each input is computed alone and from its first token, which takes several times as long. The log says at the start which holds. Contexts on devices of different kinds still differ.", options.Bool(&m.Reproducible)),
		option("queue-limit", "N", "Candidates admitted at a time, waiting or running. Requests that do not fit get 503 with Retry-After. Waiting ones of lower priority make way.", options.Int(&s.QueueLimit, 1, maxQueue)),
		option("queue-time", "TIME", "Longest expected wait of a new request, such as 5s. Those that would wait longer get 503 with Retry-After. For clients that have no use for late answers. 0s: no limit.", options.Duration(&s.QueueTime, 0, maxDuration)),
		option("stuck", "report|exit", "What to do when a step of the model hangs, because a thread or a device does. report: /health is 503 until it ends. exit: the process also ends, with status 1, for a supervisor to restart.", options.Either(&c.StuckExit, "report", "exit")),
	}
}

func (c *Config) engine() []options.Option {
	option := options.In(GroupEngine)
	e := &c.Inference.Remote
	return []options.Option{
		option("engine", "URL,...", "Engines that generate instead of the embedded llama.cpp: vLLM, SGLang, llama-server or another agentd, all with the same model. --model then names a GGUF file or a Hugging Face directory with the model's vocabulary. A run stays with one URL while that is as fast as the others.", options.List(&e.URLs, maxEngines)),
		option("engine-api", "API", "API of the engines: auto asks them, else vllm (also agentd), sglang, llama-server.", options.Choice(&e.API, remote.APIs, nil)),
		option("engine-key-file", "FILE", "File with the key of the engines, sent as a bearer token.", options.SecretFile(&e.KeyFile)),
		option("engine-model", "NAME", "The engines' name of the model. Default: the first one that they list.", options.Text(&e.Model)),
	}
}

func (c *Config) http() []options.Option {
	option := options.In(groupHTTP)
	s := &c.Server
	return slices.Concat(
		c.HTTP.Options(groupHTTP,
			"Address to listen on. 0.0.0.0 opens the server to the network; consider --auth-token-file.",
			"Bearer tokens, one a line, of at least 16 characters; # begins a comment line. Every path but /health then needs one. NAME:TOKEN names a client for its turns, the request log and the metrics agentd_client_*. NAME+weights:TOKEN may also change the weights."),
		[]options.Option{
			option("agent-version", "TEXT", "agent_version in /v1/info. Orchestrators compare it when they resume or export a run. The default changes with each release of agentd.", options.Text(&s.Info.AgentVersion)),
			option("loading-wait", "TIME", "How long requests wait for a model that loads or is paused, before they get 503 with Retry-After. /health and /v1/info answer at once. 0s: nothing waits.", options.Duration(&s.LoadingWait, 0, maxDuration)),
			option("completions", "", "Serve OpenAI's /v1/completions, /v1/chat/completions, /v1/decisions and /v1/models, vLLM's /v1/systemone, and /tokenize, on the same model and queue. --completions=false: not.", options.Bool(&s.Completions)),
			option("request-timeout", "TIME", "Time limit of a request. Candidates that are not done by then end with the error timeout. 0s: no limit.", options.Duration(&s.RequestTimeout, 0, maxDuration)),
			option("drain-timeout", "TIME", "How long work in flight may continue after SIGTERM, SIGINT or SIGHUP. A signal a second later, or more, ends the server at once.", options.Duration(&c.DrainTimeout, 0, maxDuration)),
		})
}

func (c *Config) coaching() []options.Option {
	option, key := options.In(groupCoaching), options.In("")
	s := &c.Coaching
	return []options.Option{
		option("coaching", "on|off,KEY=VALUE,...", "Coaching, and limits of its sessions.", options.SettingsAfter(
			key("mode", "on|off", "off refuses coaching sessions and requests, and /v1/info says so. Corrections through /v1/responses still work.", options.Either(&c.NoCoaching, "on", "off")),
			key("workers", "N", "requests of one session in progress at the same time.", options.Int(&s.Workers, 1, maxCoaching)),
			key("queue", "N", "requests of one session that wait for a worker; more get 503 with Retry-After.", options.Int(&s.Queue, 0, maxCoaching)),
			key("sessions", "N", "sessions at a time; more get 503 with Retry-After.", options.Int(&s.MaxSessions, 1, maxCoaching)),
			key("idle", "TIME", "closes sessions that were unused for this time. 0s: never.", options.Duration(&s.Idle, 0, maxDuration)),
			key("max-steps", "N", "longest trajectory of a request.", options.Int(&s.MaxSteps, 1, maxCoachingSteps)),
		)),
		option("coaching-allow", "LIST", "Where coaches may be: host names, *.example.org, addresses and networks such as 10.0.0.0/8, separated by commas or in several --coaching-allow. Default: any public or loopback address. Link-local and cloud metadata addresses are never allowed.", options.List(&c.CoachingAllow, maxCoachingAllow)),
		option("coach-human", "URL,when=WHEN", "People who coach every session beside its backends. Sessions with the provider human keep their own. Default: nobody.", options.SettingsAfter(
			key("url", "URL", "their endpoint, such as agentd console. It may be at a private address.", options.Text(&s.People.Endpoint)),
			key("when", "WHEN", "first asks them before the backends, which are asked when no person answers; failed when no backend gave a correction. A person who skips a task ends it.", options.Choice(&s.People.When, []string{coaching.PeopleFirst, coaching.PeopleFailed}, nil)),
		)),
		option("ask", "FILE,error=RATE,wait=TIME", "Calibration of agentd calibrate. The steps of decisions with options then have the set of options that has the right one but for this error rate. Where it has several, the coaches of the session in extra_keys.ask choose. Default: no sets (docs/decide.md).", options.SettingsAfter(
			key("file", "FILE", "the calibration, of the served model.", options.Text(&c.Ask.File)),
			key("error", "RATE", "one of the file's error rates.", options.Float(&c.Ask.Error, 0.0001, 0.9999)),
			key("wait", "TIME", "longest wait for a coach; then the most probable option is taken.", options.Duration(&c.Ask.Wait, time.Millisecond, maxDuration)),
		)),
		option("store", "URL", "PostgreSQL database for coaching sessions, such as postgres://user@host/database. Several servers may share it, and sessions survive restarts. Needs --store-key-file. AGENTD_STORE or PGPASSWORD keeps the password out of the process list. Default: memory.", options.Text(&c.Store)),
		option("store-key-file", "FILE", "Keys that encrypt sessions in --store, the same for all servers. One a line, of 32 bytes in hexadecimal digits or base64. The first key encrypts, all decrypt. openssl rand -hex 32 makes one.", options.SecretFile(&c.StoreKeyFile)),
	}
}

func (c *Config) files() []options.Option {
	option := options.In(cli.GroupLogs)
	return slices.Concat([]options.Option{
		option("prompt-log-dir", "DIR", "Write each prompt and raw output of /v1/responses and /magma into this directory. The files contain user text.", options.Text(&c.Inference.Agent.PromptLogDir)),
	}, c.Log.Options(), []options.Option{
		option("config", "FILE", "JSON configuration file.", options.Text(&c.File)),
	})
}

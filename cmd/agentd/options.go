package main

import (
	"strings"

	"agentd/agent"
	"agentd/coaching"
)

// option is one setting under its three names: the flag --name, the variable
// AGENTD_NAME and the configuration file's key.
type option struct {
	name  string // flag name: words joined by "-"
	inner string // its key inside the file's "model" object; "" when it has none
	group string // heading on the help page
	arg   string // placeholder on the help page; "" for a switch
	usage string // one or two sentences
	value value
}

// env is the option's environment variable.
func (o option) env() string { return "AGENTD_" + strings.ToUpper(o.key()) }

// key is the option's top-level key in the configuration file.
func (o option) key() string { return strings.ReplaceAll(o.name, "-", "_") }

// Headings of the help page, in its order.
const (
	groupModel    = "Model"
	groupFormat   = "Prompt and output"
	groupSampling = "Sampling (used when a request does not ask for inference_mode true)"
	groupPlace    = "Placement and speed"
	groupHTTP     = "HTTP"
	groupCoaching = "Coaching"
	groupLogs     = "Files and logs"
)

var groups = []string{groupModel, groupFormat, groupSampling, groupPlace, groupHTTP, groupCoaching, groupLogs}

var (
	formatAliases = map[string]string{"harmony": "gpt-oss", "gpt_oss": "gpt-oss", "magma": "template"}
	dtypes        = []string{"auto", "f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"}
	dtypeAliases  = map[string]string{"float32": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16"}
)

// options binds every option to its field of c.
func options(c *Config) []option {
	return []option{
		{"model", "path", groupModel, "FILE", "GGUF file to serve (of a split model: its first file). Without it the model inside agentd is served, which decides for robots in small simulated households and knows nothing else.", text{&c.Model}},
		{"model-format", "format", groupModel, "NAME", "How the model is prompted and read: auto, qwen, gpt-oss (or harmony), llama (Llama 3.1 and later), template (or magma).", choice{&c.ModelFormat, []string{"auto", "qwen", "gpt-oss", "llama", "template"}, formatAliases}},
		{"quantization", "quantization", groupModel, "MODE", "auto serves any file; none refuses a quantized one. GPT-OSS and natively quantized files need auto.", quantization{choice{&c.Quantization, []string{"auto", "none"}, nil}}},
		{"dtype", "dtype", groupModel, "TYPE", "Element type of the KV cache: auto (f16), f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl. float32, float16 and bfloat16 are accepted.", choice{&c.DType, dtypes, dtypeAliases}},
		{"context-length", "context_length", groupModel, "TOKENS", "Size of the KV cache, shared by all running candidates and the prefix cache; one candidate also never exceeds what the model was trained on. auto: 32768, on a GPU up to 131072 if the model was trained on more, as far as memory allows.", integer{&c.ContextLength, minContext, maxContext, "auto", 0}},
		{"max-new-tokens", "max_new_tokens", groupModel, "TOKENS", "Longest answer of one candidate; reaching it is the candidate error truncated. auto: 1024, with the model inside agentd 256, which its longest decisions do not come near.", integer{&c.MaxNewTokens, 1, maxContext, "auto", -1}},

		{"chat-template", "chat_template", groupFormat, "FILE|TEXT", "Jinja template to use instead of the model's own: a file, or the template itself. --model-format template renders it; qwen, gpt-oss and llama prompt natively, and qwen takes from it which of its variants the model is.", text{&c.ChatTemplate}},
		{"output-style", "output_style", groupFormat, "STYLE", "What the template format expects the model to write: qwen_format or json.", choice{&c.OutputStyle, []string{"qwen_format", "json"}, nil}},
		{"agent", "agent", groupFormat, "KIND", "full-history shows the model the whole history. history-summarized has it write a summary in place of the history when the prompt exceeds --summary-budget; it has no coaching. Each goes on with the memory of the other.", choice{&c.Agent, []string{agent.FullHistory, agent.HistorySummarized}, nil}},
		{"summary-budget", "summary_budget", groupFormat, "N", "With --agent history-summarized: the largest prompt, in --summary-unit. auto: 5000 tokens, or less where the context is small; 4 characters for each token.", integer{&c.SummaryBudget, 1, maxContext, "auto", 0}},
		{"summary-unit", "summary_unit", groupFormat, "UNIT", "What --summary-budget counts: tokens or characters.", choice{&c.SummaryUnit, []string{unitTokens, unitCharacters}, nil}},
		{"summary-max-tokens", "summary_max_tokens", groupFormat, "TOKENS", "Longest summary; it is cut off there. auto: 1024, or a quarter of the budget if that is less.", integer{&c.SummaryMaxTokens, 1, maxContext, "auto", 0}},
		{"summary-keep", "summary_keep", groupFormat, "N", "Newest messages of the history that stay behind a summary, as far as the budget allows.", integer{p: &c.SummaryKeep, max: maxHistory}},
		{"constrain", "constrain", groupFormat, "on|off", "on keeps every tool call valid for its tools while it is generated; off only checks it afterwards.", choice{&c.Constrain, []string{"on", "off"}, map[string]string{"true": "on", "false": "off"}}},
		{"forced-tokens", "forced_tokens", groupFormat, "on|off", "on appends what the grammar leaves no choice about, such as the rest of a tool's name or a key, without sampling it, and computes it with the next token; off samples every token, for comparisons.", choice{&c.ForcedTokens, []string{"on", "off"}, map[string]string{"true": "on", "false": "off"}}},
		{"repetition-stop", "repetition_stop", groupFormat, "on|off", "on ends a candidate that repeats itself, the same eight tokens or more four times in a row or the same call again, as the error truncated: it seldom finds an end, and the others of its request wait for it. off lets it go on. Not with --fixed-tokens.", choice{&c.RepetitionStop, []string{"on", "off"}, map[string]string{"true": "on", "false": "off"}}},
		{"mixed-output", "mixed_output", groupFormat, "MODE", "Text beside tool calls: reject makes it an invalid output, tools keeps the calls and drops the text.", choice{&c.MixedOutput, []string{"reject", "tools"}, map[string]string{"error": "reject"}}},
		{"calls-per-robot", "calls_per_robot", groupFormat, "one|any", "one: a decision may call each robot once, and a second call is the candidate error invalid_output. any: a robot may have several calls.", choice{&c.CallsPerRobot, []string{"one", "any"}, nil}},
		{"default-robot", "default_robot", groupFormat, "NAME", "Robot of a tool call that names none when several or none are known.", text{&c.DefaultRobot}},
		{"enable-thinking", "enable_thinking", groupFormat, "", "Let Qwen models think before they answer. Thoughts never reach the decision.", toggle{&c.EnableThinking}},
		{"reasoning-effort", "reasoning_effort", groupFormat, "LEVEL", "How long GPT-OSS models reason: low, medium, high.", choice{&c.ReasoningEffort, []string{"low", "medium", "high"}, nil}},
		{"history-max-messages", "history_max_messages", groupFormat, "N", "Show the model only the newest N messages of the history; the memory keeps all. 0: no limit.", integer{p: &c.HistoryMaxMessages, max: maxHistory}},

		{"temperature", "temperature", groupSampling, "X", "Default: the model file's value, else 0.6. Requests with inference_mode true do not sample.", fraction{&c.Temperature, 0.01, 10}},
		{"top-p", "top_p", groupSampling, "X", "Default: the model file's value, else 0.95.", fraction{&c.TopP, 0.01, 1}},
		{"top-k", "top_k", groupSampling, "N", "Default: the model file's value, else 20. 0: no limit.", optionalInteger{&c.TopK, 0, 1 << 20}},
		{"min-p", "min_p", groupSampling, "X", "Default: 0, off.", fraction{&c.MinP, 0, 1}},
		{"seed", "seed", groupSampling, "N", "Base of the candidates' seeds: the same request to a freshly started server gives the same answers.", seed{&c.Seed}},

		{"device", "device", groupPlace, "NAMES", "auto, cpu, or device names separated by commas, such as CUDA0,CUDA1.", names{text{&c.Device}}},
		{"gpu-layers", "gpu_layers", groupPlace, "N|all", "Model layers to put on the GPU; the rest stays on the CPU.", integer{&c.GPULayers, 0, maxLayers, "all", -1}},
		{"tensor-split", "tensor_split", groupPlace, "LIST", "Share of the model for each device, such as 3,1.", numbers{&c.TensorSplit}},
		{"contexts", "contexts", groupPlace, "N", "Contexts that share the work, each with its own KV cache, batch and threads. With several GPUs each GPU, or group of them, loads the whole model and gets as many: --device CUDA0,CUDA1 --contexts 2 runs one on each. What fails on one is done on another. Requests go where their prefix is cached, unless another would be done sooner.", integer{p: &c.Contexts, min: 1, max: maxContexts}},
		{"prefix-cache", "prefix_cache", groupPlace, "on|off", "off computes every prompt from its first token on, for comparisons; the candidates of one input still share theirs.", choice{&c.PrefixCache, []string{"on", "off"}, map[string]string{"true": "on", "false": "off"}}},
		{"cache-ram", "cache_ram", groupPlace, "MB", "Host memory for prefixes that the KV cache has no room for any more, of all contexts together: copied back when a prompt begins with them, instead of computed again. For caches that are smaller than what all agents' histories take. Not for models with a sliding window or a recurrent state. 0: none.", integer{p: &c.CacheRAM, max: maxCacheRAM}},
		{"parallel", "parallel", groupPlace, "N", "Candidates generated at the same time, in each context.", integer{&c.Parallel, 1, maxSequences, "auto", 0}},
		{"draft-rows", "draft_rows", groupPlace, "N", "Fill each step of the model up to so many tokens with guesses of what candidates say next, taken from where their prompt or answer said the same before. A right guess saves a step and a wrong one costs little; answers are the same but for rounding. Where as many candidates decode at once nothing is guessed, nor with --reproducible and models with a sliding window or a recurrent state. 0: never. auto: 2, on a GPU 8; 0 with --fixed-tokens.", integer{&c.DraftRows, 0, maxDraftRows, "auto", -1}},
		{"batch-size", "batch_size", groupPlace, "TOKENS", "Most tokens the model sees in one step.", integer{&c.BatchSize, minBatch, maxBatch, "auto", 0}},
		{"threads", "threads", groupPlace, "N", "CPU threads of the model. auto: physical cores, minus one where there are more than four; fewer while other programs use the processors and fewer threads are faster (not with several --contexts). A number is fixed.", integer{&c.Threads, 1, maxThreads, "auto", 0}},
		{"reproducible", "reproducible", groupPlace, "", "Compute each input by itself, from its first token on: with inference_mode the same input then gives the same bytes whatever else the server does, and whatever is cached. Without, rounding may decide between tokens that are almost equally probable. Takes several times as long. Contexts on devices of different kinds still differ.", toggle{&c.Reproducible}},
		{"cpu-attention", "cpu_attention", groupPlace, "HOW", "How attention is computed on the CPU: shared reads what candidates and agents have in common once for all of them; ggml leaves it to llama.cpp, and the logits as well, for comparisons.", choice{&c.CPUAttention, []string{"shared", "ggml"}, nil}},
		{"queue-limit", "queue_limit", groupPlace, "N", "Candidates admitted at a time, waiting or running. A request that does not fit is answered 503 with Retry-After.", integer{p: &c.QueueLimit, min: 1, max: maxQueue}},
		{"queue-time", "queue_time", groupPlace, "TIME", "Refuse a request in the same way when the candidates that wait before it will probably take longer than this, such as 5s: for clients to whom a late answer is of no use. 0s: no limit.", duration{&c.QueueTime}},

		{"fixed-tokens", "fixed_tokens", groupPlace, "N", "For benchmarks only: every answer is exactly N tokens of whatever the model says, unconstrained, so that any weights are the same load. 0: off.", integer{p: &c.FixedTokens, max: maxContext}},

		{"agent-version", "", groupHTTP, "TEXT", "What agent_version in /v1/info says. Orchestrators compare it when they resume or export a run; the default is agentd's release and changes with it.", text{&c.AgentVersion}},
		{"host", "", groupHTTP, "ADDRESS", "Address to listen on. 0.0.0.0 opens the server to the network: think of --auth-token-file.", text{&c.Host}},
		{"port", "", groupHTTP, "N", "Port to listen on. 0 takes a free one and logs it.", integer{p: &c.Port, max: maxPort}},
		{"tls-cert", "", groupHTTP, "FILE", "PEM certificate chain; with --tls-key the server speaks HTTPS only.", text{&c.TLSCert}},
		{"tls-key", "", groupHTTP, "FILE", "PEM private key of --tls-cert.", text{&c.TLSKey}},
		{"auth-token-file", "", groupHTTP, "FILE", "Bearer tokens, one a line, of at least 16 characters; # begins a comment line. Every path but /health then needs one.", text{&c.AuthTokenFile}},
		{"loading-wait", "", groupHTTP, "TIME", "How long requests that arrive while the model loads wait for it before they are answered 503 with Retry-After. /health and /v1/info answer at once. 0s: nothing waits.", duration{&c.LoadingWait}},
		{"request-timeout", "", groupHTTP, "TIME", "Candidates of one request that are not done by then end as the error timeout. 0s: no limit.", duration{&c.RequestTimeout}},
		{"drain-timeout", "", groupHTTP, "TIME", "How long work in flight may go on after SIGTERM or SIGINT. A second signal ends the server at once.", duration{&c.DrainTimeout}},

		{"coaching", "", groupCoaching, "on|off", "off refuses coaching sessions and requests and says so in /v1/info; corrections through /v1/responses work all the same.", choice{&c.Coaching, []string{"on", "off"}, map[string]string{"true": "on", "false": "off"}}},
		{"coaching-allow", "", groupCoaching, "LIST", "Where coaches may be, since clients name them: host names, *.example.org, addresses and networks such as 10.0.0.0/8, separated by commas or in several --coaching-allow. Default: any public or loopback address. Link-local and cloud metadata addresses are never allowed.", list{&c.CoachingAllow, maxCoachingAllow}},
		{"coach-human", "", groupCoaching, "URL", "Let people at this endpoint coach every session, whatever its configuration says, beside its backends: agentd console is such an endpoint. It may be at a private address. Sessions with the provider human keep their own. Default: nobody.", text{&c.CoachHuman}},
		{"coach-human-when", "", groupCoaching, "WHEN", "When --coach-human asks people: first, before the backends, which are asked where no person answers; or failed, when the backends gave no correction. A person who skips a task ends it.", choice{&c.CoachHumanWhen, []string{coaching.PeopleFirst, coaching.PeopleFailed}, nil}},
		{"coaching-workers", "", groupCoaching, "N", "Requests of one session that are worked on at once.", integer{p: &c.CoachingWorkers, min: 1, max: maxCoaching}},
		{"coaching-queue", "", groupCoaching, "N", "Requests of one session that wait for a worker; the next one is answered 503 with Retry-After.", integer{p: &c.CoachingQueue, max: maxCoaching}},
		{"coaching-sessions", "", groupCoaching, "N", "Sessions at a time; the next one is answered 503 with Retry-After.", integer{p: &c.CoachingSessions, min: 1, max: maxCoaching}},
		{"coaching-idle", "", groupCoaching, "TIME", "Close sessions that nobody used for so long. 0s: never.", duration{&c.CoachingIdle}},
		{"coaching-max-steps", "", groupCoaching, "N", "Longest trajectory of a request, in steps.", integer{p: &c.CoachingMaxSteps, min: 1, max: maxCoachingSteps}},

		{"prompt-log-dir", "", groupLogs, "DIR", "Write every prompt and raw output into this directory. They hold user text.", text{&c.PromptLogDir}},
		{"pprof", "", groupLogs, "ADDRESS", "Serve Go profiles at /debug/pprof/ of an own address on this machine, such as 127.0.0.1:6060. Default: off.", text{&c.Pprof}},
		{"log-level", "", groupLogs, "LEVEL", "trace, debug, info, warn or error.", choice{&c.LogLevel, []string{"trace", "debug", "info", "warn", "error"}, map[string]string{"warning": "warn"}}},
		{"log-format", "", groupLogs, "FORMAT", "console for people, json for machines.", choice{&c.LogFormat, []string{"console", "json"}, nil}},
		{"config", "", groupLogs, "FILE", "JSON configuration file.", text{&c.ConfigFile}},
	}
}

package serve

// helpIntro is agentd --help before the commands, helpExamples before the options, and helpOutro after them.
const (
	helpIntro = `agentd serves a full-history agent over HTTP: it takes batches of inputs, asks a
llama.cpp model and returns one checked decision for every candidate.

Usage
`
	helpExamples = `
Examples
  agentd
      serve the default model on 127.0.0.1:8888, for robots in small simulated households;
      README.md has a first request
  agentd Qwen3-8B-Q4_K_M.gguf --context-length 65536 --parallel 32
      a GGUF file in the first place is that of --model
  agentd --hf Qwen/Qwen3-8B-GGUF:Q8_0
      download a model of a Hugging Face hub first
  agentd --model gpt-oss-20b-mxfp4.gguf --quantization auto --reasoning-effort low
  agentd --config agentd.json --port 9000
      explicit options win over the file
`
	helpOutro = `Where values come from
  Defaults, then the configuration file, then AGENTD_* variables, then options. Each wins
  over the one before. The variable of --max-new-tokens is AGENTD_MAX_NEW_TOKENS, and its key
  in the file is max_new_tokens. The file may gather the model's keys in one object:
    {"host": "0.0.0.0", "port": 8888,
     "model": {"path": "Qwen3-8B-Q4_K_M.gguf", "format": "qwen", "max_new_tokens": 512}}
  Unknown options, unknown keys and bad values end the program with the name and the fix.

Signals
  SIGTERM, SIGINT or SIGHUP stops new work, finishes work in flight within --drain-timeout
  and exits with 0. A signal a second later, or more, exits at once with 1.
`
)

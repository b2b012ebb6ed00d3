package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/cmd/internal/options"
)

// parsed parses a configuration file of the given text ("" for none), variables and flags.
func parsed(t *testing.T, file string, env map[string]string, args ...string) (*Config, options.Origins, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "agentd.json")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", path}, args...)
	}
	return Parse(args, func(name string) (string, bool) {
		s, ok := env[name]
		return s, ok
	}, io.Discard)
}

func TestLaterLayersWin(t *testing.T) {
	file := `{"port": 1001, "queue_limit": 11, "drain_timeout": 90, "model": {"max_new_tokens": 21, "dtype": "bfloat16"}}`
	env := map[string]string{"AGENTD_QUEUE_LIMIT": "12", "AGENTD_DRAIN_TIMEOUT": "80s", "AGENTD_SEED": ""}
	c, from, err := parsed(t, file, env, "--drain-timeout", "70s", "--parallel=auto")
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range []struct {
		option    string
		got, want any
		source    string
	}{
		{"host", c.HTTP.Host, "127.0.0.1", ""},
		{"port", c.HTTP.Port, 1001, "port"},
		{"max-new-tokens", c.Inference.Agent.MaxNewTokens, 21, "model.max_new_tokens"},
		{"dtype", c.Inference.KVType, "bf16", "model.dtype"},
		{"queue-limit", c.Inference.Scheduler.QueueLimit, 12, "AGENTD_QUEUE_LIMIT"},
		{"drain-timeout", c.DrainTimeout, 70 * time.Second, "--drain-timeout"},
		{"parallel", c.Inference.Scheduler.MaxRunning, 0, "--parallel"},
		{"seed", c.Inference.Agent.Seed, uint64(0), ""}, // an empty variable is not a value
	} {
		if check.got != check.want {
			t.Errorf("%s = %v, want %v", check.option, check.got, check.want)
		}
		if got := from[check.option]; !strings.HasSuffix(got, check.source) || (got == "") != (check.source == "") {
			t.Errorf("%s came from %q, want %q", check.option, got, check.source)
		}
	}
}

func TestFileSetsTheOptionsOfEngines(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := parsed(t, fmt.Sprintf(`{"engine": ["http://a:1", "http://b:2"], "engine_api": "vllm", "engine_key_file": %q, "engine_model": "m", "debug": {"engine_retries": 4}}`, key), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := c.Inference.Remote
	if strings.Join(r.URLs, " ") != "http://a:1 http://b:2" || r.API != "vllm" || r.KeyFile != key || r.Model != "m" || r.Retries != 4 {
		t.Errorf("got %+v", r)
	}
}

func TestFileSetsTheOptionsOfACalibration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ask.json")
	if err := os.WriteFile(path, []byte(`{"model": "m", "format": "f", "decisions": 90, "rates": [{"error": 0.2, "threshold": 0.4, "n": 45}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, from, err := parsed(t, fmt.Sprintf(`{"ask": {"file": %q, "error": 0.2, "wait": 90}}`, path), nil)
	if err != nil || c.Ask != (Ask{path, 0.2, 90 * time.Second}) || from["ask"] == "" {
		t.Errorf("got %+v, %v", c.Ask, err)
	}
	if _, _, err := parsed(t, "", nil, "--ask", path); err == nil || !strings.HasPrefix(err.Error(), "--ask: ") || !strings.Contains(err.Error(), "no error rate 0.1, only 0.2") {
		t.Errorf("another rate: %v", err)
	}
}

func TestFileSetsEveryOption(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "m.gguf")
	tokens := filepath.Join(dir, "tokens")
	keys := filepath.Join(dir, "keys")
	logs := filepath.Join(dir, "new", "logs")
	for path, text := range map[string]string{model: "GGUF", tokens: "# comment\n\n0123456789abcdef\n", keys: strings.Repeat("ab", 32)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inner := fmt.Sprintf(`"path": %q, "format": "magma", "quantization": "none", "model_alias": "m", "dtype": "float16",
		"context_length": "auto", "max_new_tokens": 7, "agent": "full-history", "chat_template": "{{ messages }}", "output_style": "json",
		"mixed_output": "tools", "calls_per_robot": "any", "return": ["token_ids", "logprobs"], "default_robot": "r2", "enable_thinking": true,
		"reasoning_effort": "high", "history_max_messages": 9, "temperature": 0.5, "top_p": 1, "top_k": 0,
		"min_p": 0.1, "seed": 18446744073709551615, "device": ["CUDA0=3", "CUDA1=1.5"], "gpu_layers": "all",
		"split_mode": "tensor", "contexts": 4, "parallel": 3, "threads": 2, "reproducible": false, "cache_ram": 70, "queue_limit": 5, "stuck": "exit", "queue_time": "4s", "lora": [%q], "weights_dir": %q`, model, "quick="+model, dir)
	outer := fmt.Sprintf(`"agent_version": "7.1", "host": "0.0.0.0", "port": 0, "auth_token_file": %q, "request_timeout": 1.5, "loading_wait": "5s",
		"drain_timeout": "2m", "prompt_log_dir": %q,
		"debug": {"batch_size": 64, "constrain": "off", "cpu-attention": "ggml", "draft_rows": 6, "engine_retries": 1, "fixed_tokens": 6,
			"forced_tokens": "off", "pprof": "localhost:0", "prefix_cache": "on", "repetition_stop": "off"},
		 "log_level": "warning", "log_format": "json", "coaching": {"mode": "on", "workers": 2, "queue": 0, "sessions": 6, "idle": "1h", "max_steps": 8}, "completions": false,
		"coaching_allow": ["Coach.example.org", "10.0.0.0/8"],
		"coach_human": {"url": "http://10.0.0.1:8890/x?key=k", "when": "failed"}, "store": "postgres://agentd@db/agentd", "store_key_file": %q`, tokens, logs, keys)
	c, from, err := parsed(t, "{"+outer+`, "model": {`+inner+"}}", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"model": model, "model-alias": "m", "model-format": "template", "quantization": "none", "dtype": "f16", "context-length": "auto",
		"max-new-tokens": "7", "agent": "full-history,budget=auto,unit=tokens,max-tokens=auto,keep=0", "chat-template": "{{ messages }}", "output-style": "json",
		"mixed-output": "tools", "calls-per-robot": "any", "return": "token_ids,logprobs", "default-robot": "r2", "enable-thinking": "true", "reasoning-effort": "high",
		"history-max-messages": "9", "temperature": "0.5", "top-p": "1", "top-k": "0", "min-p": "0.1",
		"seed": "18446744073709551615", "device": "CUDA0=3,CUDA1=1.5", "gpu-layers": "all", "split-mode": "tensor",
		"contexts": "4", "parallel": "3", "threads": "2", "reproducible": "false", "cache-ram": "70", "queue-limit": "5", "stuck": "exit", "queue-time": "4s", "lora": "quick=" + model, "weights-dir": dir, "agent-version": "7.1", "host": "0.0.0.0", "port": "0",
		"auth-token-file": tokens, "request-timeout": "1.5s", "loading-wait": "5s", "drain-timeout": "2m0s", "prompt-log-dir": logs,
		"debug":     "batch-size=64,constrain=off,cpu-attention=ggml,draft-rows=6,engine-retries=1,fixed-tokens=6,forced-tokens=off,pprof=localhost:0,prefix-cache=on,repetition-stop=off",
		"log-level": "warn", "log-format": "json", "coaching": "on,workers=2,queue=0,sessions=6,idle=1h0m0s,max-steps=8", "coaching-allow": "Coach.example.org,10.0.0.0/8",
		"coach-human": "http://10.0.0.1:8890/x?key=k,when=failed", "store": "postgres://agentd@db/agentd", "store-key-file": keys, "completions": "false",
	}
	for _, o := range c.Command().Options {
		if slices.Contains([]string{"config", "tls-cert", "tls-key", "hf", "ask"}, o.Name) || strings.HasPrefix(o.Name, "engine") {
			continue // a file cannot name a file; TLS, hubs, engines and calibrations have their own tests
		}
		if got := o.Value.String(); got != want[o.Name] {
			t.Errorf("%s = %q, want %q", o.Name, got, want[o.Name])
		}
		if from[o.Name] == "" {
			t.Errorf("%s has no origin", o.Name)
		}
	}
}

func TestSpellingsOfModelsMeanTheOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.GGUF")
	if err := os.WriteFile(file, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--model", file}, {"-m", file}, {"-m=" + file}, {file}, {file, "--port", "1"}, {"--port", "1", "-m", file}} {
		c, from, err := parsed(t, "", nil, args...)
		if err != nil || c.Inference.Path != file || from["model"] != "--model" {
			t.Errorf("%q: %q, %v, %v", args, c.Inference.Path, from, err)
		}
	}
	for _, args := range [][]string{{"--hf", "o/r:Q8_0"}, {"-hf", "o/r:Q8_0"}, {"-hf=o/r:Q8_0"}} {
		c, from, err := parsed(t, "", nil, args...)
		if err != nil || c.HF != "o/r:Q8_0" || c.Inference.Path != "" || from["hf"] != "--hf" {
			t.Errorf("%q: %q, %v, %v", args, c.HF, from, err)
		}
	}
	if c, _, err := parsed(t, `{"model": {"hf": "o/r"}}`, nil); err != nil || c.HF != "o/r" {
		t.Errorf("the file: %q, %v", c.HF, err)
	}
	if _, _, err := parsed(t, "", nil, "models/none.gguf"); err == nil || strings.Contains(err.Error(), "--hf") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestAdapterProblemsNameTheOption(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.gguf")
	if err := os.WriteFile(file, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"no name":             {fmt.Sprintf(`{"lora": [%q]}`, file), "want NAME=FILE"},
		"a name with a space": {fmt.Sprintf(`{"lora": [%q]}`, "a b="+file), "want NAME=FILE"},
		"a missing file":      {`{"lora": ["a=none.gguf"]}`, "none.gguf does not exist"},
		"a name twice":        {fmt.Sprintf(`{"lora": [%q, %q]}`, "a="+file, "a="+file), "names two adapters a"},
		"no directory":        {fmt.Sprintf(`{"weights_dir": %q}`, file), "is not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := parsed(t, tc.text, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestFileSetsTheOptionsOfSummaries(t *testing.T) {
	c, from, err := parsed(t, `{"model": {"agent": {"kind": "history-summarized", "budget": 6000, "unit": "characters", "max_tokens": 99, "keep": 4}}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"agent": "history-summarized,budget=6000,unit=characters,max-tokens=99,keep=4"}
	for _, o := range c.Command().Options {
		if value, ok := want[o.Name]; ok && (o.Value.String() != value || from[o.Name] == "") {
			t.Errorf("%s = %q from %q, want %q", o.Name, o.Value, from[o.Name], value)
		}
	}
	if c, _, err = parsed(t, "", nil, "--agent", "history-summarized", "--agent", "budget=auto", "--coaching", "off"); err != nil || c.Inference.Agent.Summary.Budget != 0 || c.Inference.Agent.Summary.MaxTokens != 0 || c.Inference.Agent.Summary.Keep != 0 || c.Inference.Agent.Summary.Characters {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestModelKeysWorkAtTopLevel(t *testing.T) {
	c, _, err := parsed(t, `{"max_new_tokens": 5, "model_format": "harmony"}`, nil)
	if err != nil || c.Inference.Agent.MaxNewTokens != 5 || c.Inference.Agent.Format != "gpt-oss" {
		t.Fatalf("got %d, %q, %v", c.Inference.Agent.MaxNewTokens, c.Inference.Agent.Format, err)
	}
}

func TestNullLeavesNullableOptionsUnset(t *testing.T) {
	c, from, err := parsed(t, `{"prompt_log_dir": null, "model": {"chat_template": null, "history_max_messages": null}}`, nil)
	if err != nil || c.Inference.Agent.PromptLogDir != "" || c.Inference.Agent.Prompt.ChatTemplate != "" || c.Inference.Agent.HistoryMaxMessages != 0 || from["chat-template"] != "" {
		t.Fatalf("got %+v, %v", c, err)
	}
}

func TestFlagsAcceptUnderscores(t *testing.T) {
	c, _, err := parsed(t, "", nil, "--max_new_tokens", "5", "--enable_thinking")
	if err != nil || c.Inference.Agent.MaxNewTokens != 5 || !c.Inference.Agent.Prompt.EnableThinking {
		t.Fatalf("got %d, %v, %v", c.Inference.Agent.MaxNewTokens, c.Inference.Agent.Prompt.EnableThinking, err)
	}
}

// TestListsGather: a flag given several times adds up, and a layer still
// replaces the one before.
func TestListsGather(t *testing.T) {
	file, env := `{"coaching_allow": "a.example.org"}`, map[string]string{"AGENTD_COACHING_ALLOW": "b.example.org"}
	for name, test := range map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"the file's":        {nil, nil, "a.example.org"},
		"the variable's":    {env, nil, "b.example.org"},
		"the flags', all":   {env, []string{"--coaching-allow", "c.example.org, 10.0.0.0/8", "--coaching-allow=127.0.0.1"}, "c.example.org,10.0.0.0/8,127.0.0.1"},
		"other flags' last": {nil, []string{"--port", "1", "--port", "2"}, "a.example.org"},
	} {
		c, _, err := parsed(t, file, test.env, test.args...)
		if got := strings.Join(c.CoachingAllow, ","); err != nil || got != test.want {
			t.Errorf("%s: got %s, %v; want %s", name, got, err, test.want)
		}
		if len(test.args) == 4 && test.args[0] == "--port" && c.HTTP.Port != 2 {
			t.Errorf("%s: the port is %d", name, c.HTTP.Port)
		}
	}
}

func TestCoachingIsOnByDefault(t *testing.T) {
	c, _, err := parsed(t, "", nil)
	if err != nil || c.NoCoaching || len(c.CoachingAllow) != 0 || c.Coaching.Workers != 4 || c.Coaching.Queue != 64 ||
		c.Coaching.MaxSessions != 1024 || c.Coaching.Idle != 0 || c.Coaching.MaxSteps != 2000 {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestErrorsNameKeyAndFix holds one row for every way a setting can be wrong.
func TestErrorsNameKeyAndFix(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		env  map[string]string
		args []string
		want []string // parts of the message
	}{
		"unknown flag":                   {args: []string{"--modell", "x"}, want: []string{"--modell", "did you mean --model?"}},
		"flag of another runtime":        {args: []string{"--device-map", "auto"}, want: []string{"--device-map", "not an option of agentd", "use --device, ", "--gpu-layers"}},
		"flag without its value":         {args: []string{"--port"}, want: []string{"--port", "--help"}},
		"argument that is no option":     {args: []string{"--port", "1", "model.gguf"}, want: []string{`"model.gguf"`, "--help"}},
		"hub name for a model":           {args: []string{"--model", "owner/repo:Q8_0"}, want: []string{"--model: owner/repo:Q8_0 does not exist", "or use --hf owner/repo:Q8_0"}},
		"hub name that is none":          {args: []string{"--hf", "repo"}, want: []string{`--hf: got "repo"`, "OWNER/REPO:Q8_0"}},
		"two models":                     {file: `{"model": {"hf": "owner/repo"}}`, args: []string{"-m", "config_test.go"}, want: []string{"model.hf", "--model", "remove one"}},
		"key of other servers":           {args: []string{"--api-key", "x"}, want: []string{"option --api-key is not", "use --auth-token-file"}},
		"their name of the model":        {args: []string{"--served-model-name", "x"}, want: []string{"option --served-model-name is not", "use --model-alias"}},
		"their temperature":              {args: []string{"--temp", "0"}, want: []string{"option --temp is not", "use --temperature"}},
		"their short context":            {args: []string{"-c", "4096"}, want: []string{"option -c is not", "use --context-length"}},
		"their short layers":             {args: []string{"-ngl", "99"}, want: []string{"option -ngl is not", "use --gpu-layers"}},
		"their short slots":              {args: []string{"-np", "4"}, want: []string{"option -np is not", "use --parallel"}},
		"a short option of nobody":       {args: []string{"-q"}, want: []string{"option -q is unknown; agentd --help lists"}},
		"a hint in a file":               {file: `{"n_ctx": 4096}`, want: []string{"n_ctx is not", "use context_length"}},
		"hub option of llama-server":     {args: []string{"--hf-repo", "owner/repo"}, want: []string{"--hf-repo", "use --hf"}},
		"its file in the file":           {file: `{"hf_file": "m.gguf"}`, want: []string{"hf_file", "OWNER/REPO:FILE"}},
		"answer longer, of a hub":        {args: []string{"--hf", "owner/repo", "--context-length", "512"}, want: []string{"--max-new-tokens", "no space", "--context-length 512"}},
		"unknown key":                    {file: `{"prot": 1}`, want: []string{"agentd.json", "prot", "did you mean port?"}},
		"unknown key, nothing close":     {file: `{"zzzzzz": 1}`, want: []string{"zzzzzz", "--help"}},
		"unknown model key":              {file: `{"model": {"pth": "x"}}`, want: []string{"model.pth", "did you mean path?"}},
		"key in the wrong letter case":   {file: `{"Port": 1}`, want: []string{"Port is unknown", "did you mean port?"}},
		"HTTP key inside model":          {file: `{"model": {"host": "::1"}}`, want: []string{"model.host", "unknown"}},
		"key given twice":                {file: `{"port": 1, "port": 2}`, want: []string{"agentd.json", "port", "duplicate"}},
		"option given in both places":    {file: `{"max_new_tokens": 1, "model": {"max_new_tokens": 2}}`, want: []string{"model.max_new_tokens", `"max_new_tokens"`, "keep one"}},
		"attn_implementation":            {file: `{"model": {"attn_implementation": "sdpa"}}`, want: []string{"model.attn_implementation", "not an option of agentd", "flash attention"}},
		"use_cache":                      {file: `{"model": {"use_cache": true}}`, want: []string{"model.use_cache", "context_length"}},
		"offload_folder":                 {file: `{"model": {"offload_folder": "/x"}}`, want: []string{"model.offload_folder", "gpu_layers"}},
		"device_map":                     {file: `{"model": {"device_map": "auto"}}`, want: []string{"model.device_map", "CUDA0=3"}},
		"gpu_memory_limit":               {file: `{"gpu_memory_limit": "20GiB"}`, want: []string{"gpu_memory_limit", "gpu_layers"}},
		"allow_cpu_offload":              {file: `{"model": {"allow_cpu_offload": true}}`, want: []string{"model.allow_cpu_offload", "gpu_layers"}},
		"file that names a file":         {file: `{"config": "other.json"}`, want: []string{"config", "unknown"}},
		"file that is no object":         {file: `[]`, want: []string{"agentd.json", "want one JSON object"}},
		"file that is no JSON":           {file: `{"port": }`, want: []string{"agentd.json"}},
		"file with more behind":          {file: `{} {}`, want: []string{"more after the closing brace"}},
		"file that does not exist":       {args: []string{"--config", "/nonexistent.json"}, want: []string{"--config", "/nonexistent.json"}},
		"string for a number":            {file: `{"port": "8888"}`, want: []string{"port", "without quotes"}},
		"fraction for a whole number":    {file: `{"port": 88.5}`, want: []string{"port", "whole number from 0 to 65535"}},
		"number for a string":            {file: `{"host": 5}`, want: []string{"host", "in quotes"}},
		"null":                           {file: `{"host": null}`, want: []string{"host", "got null"}},
		"string for a switch":            {file: `{"model": {"enable_thinking": "yes"}}`, want: []string{"model.enable_thinking", "true or false"}},
		"list of the wrong kind":         {file: `{"device": [0]}`, want: []string{"device", "got 0"}},
		"port out of range":              {args: []string{"--port", "70000"}, want: []string{"--port", "70000", "65535"}},
		"variable out of range":          {env: map[string]string{"AGENTD_PORT": "-1"}, want: []string{"AGENTD_PORT", "65535"}},
		"unknown format":                 {args: []string{"--model-format", "mistral"}, want: []string{"--model-format", "qwen, gpt-oss, llama, template"}},
		"unknown quantization":           {args: []string{"--quantization", "tiny"}, want: []string{"--quantization", "auto, none"}},
		"quantization that is no word":   {file: `{"quantization": 4}`, want: []string{"quantization", "in quotes"}},
		"4bit":                           {args: []string{"--quantization", "4bit"}, want: []string{"--quantization", "4bit", "Q4_K_M GGUF"}},
		"8bit in the file":               {file: `{"model": {"quantization": "8bit"}}`, want: []string{"model.quantization", "Q8_0 GGUF"}},
		"fp8 in a variable":              {env: map[string]string{"AGENTD_QUANTIZATION": "FP8"}, want: []string{"AGENTD_QUANTIZATION", "Q8_0 GGUF"}},
		"load_in_4bit":                   {file: `{"model": {"load_in_4bit": true}}`, want: []string{"model.load_in_4bit", "Q4_K_M GGUF"}},
		"unknown dtype":                  {args: []string{"--dtype", "int8"}, want: []string{"--dtype", "q8_0"}},
		"a model behind an option":       {args: []string{"--port", "1", "m.GGUF"}, want: []string{"before the options, or use --model"}},
		"unknown effort":                 {args: []string{"--reasoning-effort", "max"}, want: []string{"--reasoning-effort", "low, medium, high"}},
		"context below the least":        {args: []string{"--context-length", "10"}, want: []string{"--context-length", "256", "auto"}},
		"no new tokens":                  {args: []string{"--max-new-tokens", "0"}, want: []string{"--max-new-tokens", "from 1"}},
		"too many contexts":              {args: []string{"--contexts", "65"}, want: []string{"--contexts", "1 to 64", "auto"}},
		"too many in parallel":           {args: []string{"--parallel", "257"}, want: []string{"--parallel", "1 to 256"}},
		"temperature below 0":            {args: []string{"--temperature", "-0.1"}, want: []string{"--temperature", "0.01 to 10"}},
		"temperature 0":                  {args: []string{"--temperature", "0"}, want: []string{"0.01 to 10; extra_keys.inference_mode makes"}},
		"a context of no model":          {args: []string{"--context-length", "16777217"}, want: []string{"--context-length: got", "to 16777216"}},
		"an API without an engine":       {args: []string{"--engine-api", "vllm"}, want: []string{"--engine-api: is for --engine, which is missing"}},
		"an engine that is no URL":       {args: []string{"--engine", "foo"}, want: []string{"--engine: number 1 is not a URL"}},
		"a coach that is no URL":         {args: []string{"--coach-human", "foo"}, want: []string{"--coach-human: must be an http or https URL"}},
		"a file that is no JSON":         {file: "port: 8888", want: []string{"agentd.json: want one JSON object, as {\"port\": 8888}: "}},
		"temperature not a number":       {args: []string{"--temperature", "NaN"}, want: []string{"--temperature", "0.01 to 10"}},
		"top_p above 1":                  {file: `{"model": {"top_p": 1.1}}`, want: []string{"model.top_p", "0.01 to 1"}},
		"negative seed":                  {args: []string{"--seed", "-1"}, want: []string{"--seed", "from 0"}},
		"negative top-k":                 {args: []string{"--top-k", "-1"}, want: []string{"--top-k", "from 0"}},
		"time without unit":              {args: []string{"--drain-timeout", "30"}, want: []string{"--drain-timeout", "90s"}},
		"negative time":                  {args: []string{"--request-timeout", "-1s"}, want: []string{"--request-timeout", "0s"}},
		"model that does not exist":      {args: []string{"--model", "/nonexistent.gguf"}, want: []string{"--model", "/nonexistent.gguf does not exist", "GGUF"}},
		"model that is a folder":         {args: []string{"--model", "/"}, want: []string{"--model", "config.json"}},
		"template that does not exist":   {args: []string{"--chat-template", "/nonexistent.jinja"}, want: []string{"--chat-template", "/nonexistent.jinja", "Jinja"}},
		"answer longer than the context": {args: []string{"--context-length", "512", "--max-new-tokens", "512"}, want: []string{"--max-new-tokens", "no space", "--context-length 512"}},
		"a split on the CPU":             {args: []string{"--device", "cpu", "--split-mode", "tensor"}, want: []string{"--split-mode", "tensor", "--device cpu"}},
		"GPU layers on the CPU":          {args: []string{"--device", "cpu", "--gpu-layers", "3"}, want: []string{"--gpu-layers", "--device cpu"}},
		"too many draft rows":            {args: []string{"--debug", "draft-rows=65"}, want: []string{"--debug: draft-rows", "0 to 64"}},
		"logprobs that nobody has":       {args: []string{"--return", "token_ids,forced_logprobs"}, want: []string{"--return", "forced_logprobs", `"logprobs"`}},
		"host memory without a cache":    {args: []string{"--cache-ram", "9", "--debug", "prefix-cache=off"}, want: []string{"--cache-ram", "--debug prefix-cache=off"}},
		"JSON style of another format":   {args: []string{"--model-format", "qwen", "--output-style", "json"}, want: []string{"--output-style", "template"}},
		"host that is a name":            {args: []string{"--host", "example.org"}, want: []string{"--host", "0.0.0.0"}},
		"empty token file":               {args: []string{"--auth-token-file", ""}, want: []string{"--auth-token-file", "leave the option out"}},
		"an empty version":               {args: []string{"--agent-version", " "}, want: []string{"--agent-version", "0.1.0"}},
		"an alias of spaces":             {args: []string{"--model-alias", " "}, want: []string{"--model-alias", "is blank"}},
		"empty robot":                    {args: []string{"--default-robot", " "}, want: []string{"--default-robot", "name a robot"}},
		"certificate without key":        {args: []string{"--tls-cert", "x"}, want: []string{"--tls-cert", "--tls-key"}},
		"key without certificate":        {args: []string{"--tls-key", "x"}, want: []string{"--tls-key", "--tls-cert"}},
		"certificate that is missing":    {args: []string{"--tls-key", "/x", "--tls-cert", "/x"}, want: []string{"--tls-cert", "/x", "PEM"}},
		"token file that is missing":     {args: []string{"--auth-token-file", "/x"}, want: []string{"--auth-token-file", "/x"}},
		"log directory that is a file":   {args: []string{"--prompt-log-dir", "/dev/null"}, want: []string{"--prompt-log-dir", "not a directory"}},
		"log directory without files":    {args: []string{"--prompt-log-dir", "/proc/self"}, want: []string{"--prompt-log-dir", "open /proc/self/"}},
		"log directory nobody makes":     {args: []string{"--prompt-log-dir", "/proc/x"}, want: []string{"--prompt-log-dir", "mkdir /proc/x"}},
		"origin of a late problem":       {file: `{"default_robot": ""}`, want: []string{"agentd.json: default_robot", "name a robot"}},
		"coaching that is unsure":        {args: []string{"--coaching", "maybe"}, want: []string{"--coaching", "on, off"}},
		"an unknown agent":               {args: []string{"--agent", "reactive"}, want: []string{"--agent", "full-history, history-summarized"}},
		"a budget of the other agent":    {args: []string{"--agent", "budget=5000"}, want: []string{"--agent", "history-summarized", "remove"}},
		"its other options":              {args: []string{"--agent", "full-history,keep=1"}, want: []string{"--agent", "history-summarized", "remove"}},
		"an unknown unit":                {args: []string{"--agent", "history-summarized,unit=words"}, want: []string{"--agent: unit", "tokens, characters"}},
		"a budget in the wrong place":    {args: []string{"--agent", "history-summarized,budget=5000c"}, want: []string{"--agent: budget", "5000c", "auto"}},
		"messages hidden and summarized": {args: []string{"--agent", "history-summarized", "--history-max-messages", "9"}, want: []string{"--history-max-messages", "remove it"}},
		"summaries of a fixed length":    {args: []string{"--agent", "history-summarized", "--debug", "fixed-tokens=9"}, want: []string{"--debug fixed-tokens", "not a summary"}},
		"limits of no coaching":          {args: []string{"--agent", "history-summarized", "--coaching", "workers=2"}, want: []string{"--coaching", "not possible"}},
		"a former option":                {args: []string{"--coaching-limits", "workers=2"}, want: []string{"--coaching-limits is not an option of agentd", "use --coaching", "workers=4"}},
		"a former key of the model":      {file: `{"model": {"summary": {"budget": 9}}}`, want: []string{"model.summary is not an option of agentd", "use agent, as in history-summarized,budget="}},
		"a former key":                   {file: `{"coach_human_when": "failed"}`, want: []string{"coach_human_when is not an option of agentd", "use coach_human", ",when=failed"}},
		"coaching of summaries":          {file: `{"coaching": "on"}`, args: []string{"--agent", "history-summarized"}, want: []string{"coaching", "not possible with --agent history-summarized"}},
		"the first agent's budget":       {file: `{"model": {"max_context_characters": 5000}}`, want: []string{"max_context_characters", "unit=characters"}},
		"nobody to coach":                {args: []string{"--coaching", "workers=0"}, want: []string{"--coaching: workers", "from 1"}},
		"no sessions":                    {args: []string{"--coaching", "on,sessions=0"}, want: []string{"--coaching: sessions", "from 1"}},
		"a negative queue":               {args: []string{"--coaching", "queue=-1"}, want: []string{"--coaching: queue", "from 0"}},
		"no steps":                       {file: `{"coaching": {"max_steps": 0}}`, want: []string{"coaching: max_steps", "from 1"}},
		"an idle time without unit":      {args: []string{"--coaching", "idle=60"}, want: []string{"--coaching: idle", "90s"}},
		"an allowed metadata address":    {args: []string{"--coaching-allow", "169.254.169.254"}, want: []string{`--coaching-allow: "169.254.169.254" is a metadata address`}},
		"an allowed host with a scheme":  {env: map[string]string{"AGENTD_COACHING_ALLOW": "https://example.org/x"}, want: []string{"AGENTD_COACHING_ALLOW", "https://example.org/x"}},
		"an empty entry":                 {args: []string{"--coaching-allow", "a.example.org,,b.example.org"}, want: []string{"--coaching-allow", "empty entry"}},
		"an allowed number":              {file: `{"coaching_allow": [1]}`, want: []string{"coaching_allow", "got 1"}},
		"too many allowed":               {args: []string{"--coaching-allow", strings.Repeat("a.example.org,", 1024) + "b"}, want: []string{"--coaching-allow", "at most 1024"}},
		"people that are no URL":         {args: []string{"--coach-human", "127.0.0.1:8890"}, want: []string{"--coach-human", "http://127.0.0.1:8890"}},
		"people at a metadata address":   {args: []string{"--coach-human", "http://169.254.169.254"}, want: []string{"--coach-human", "never allowed"}},
		"people asked at another time":   {args: []string{"--coach-human", "http://127.0.0.1:8890,when=never"}, want: []string{"--coach-human: when", "first, failed"}},
		"a store without keys":           {args: []string{"--store", "postgres://db/agentd"}, want: []string{"--store", "--store-key-file", "openssl rand -hex 32"}},
		"keys without a store":           {args: []string{"--store-key-file", "keys"}, want: []string{"--store-key-file", "--store"}},
		"keys that are none":             {args: []string{"--store", "postgres://db/agentd", "--store-key-file", "config_test.go"}, want: []string{"--store-key-file", "line 1"}},
		"a store of another kind":        {env: map[string]string{"AGENTD_STORE": "mysql://db/agentd"}, want: []string{"AGENTD_STORE", "postgres://user@host/database"}},
		"a store of nothing":             {args: []string{"--store", "postgres://db/agentd", "--coaching", "off"}, want: []string{"--store", "without coaching"}},
		"a time for nobody":              {args: []string{"--coach-human", "when=failed"}, want: []string{"--coach-human when", "URL"}},
		"people without coaching":        {args: []string{"--coach-human", "http://127.0.0.1:8890", "--coaching", "off"}, want: []string{"--coach-human", "--coaching off"}},
		"an unknown debug key":           {args: []string{"--debug", "speed=9"}, want: []string{"--debug: speed: is unknown", "cpu-attention, draft-rows"}},
		"a debug key without a value":    {args: []string{"--debug", "pprof"}, want: []string{`--debug: got "pprof"`, "KEY=VALUE"}},
		"an unknown key in an object":    {file: `{"debug": {"speed": 9}}`, want: []string{"debug: speed: is unknown", "cpu-attention"}},
		"a setting as a flag":            {args: []string{"--cpu-attention", "ggml"}, want: []string{"--cpu-attention is a key of --debug: write --debug cpu-attention=VALUE"}},
		"a setting as a key":             {file: `{"model": {"batch_size": 64}}`, want: []string{"model.batch_size is a key of --debug: write --debug batch-size=VALUE"}},
		"a split that no backend has":    {args: []string{"--split-mode", "row"}, want: []string{"--split-mode", "layer, tensor"}},
		"all late problems at once":      {args: []string{"--host", "x y", "--default-robot", ""}, want: []string{"--host", "--default-robot"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := parsed(t, test.file, test.env, test.args...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not mention %q", err, part)
				}
			}
		})
	}
}

func TestChatTemplateTakesFileOrText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jinja")
	if err := os.WriteFile(path, []byte("{{ from_file }}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		path:                "{{ from_file }}",
		"{% if x %}\n...":   "{% if x %}\n...",
		"{{ messages[0] }}": "{{ messages[0] }}",
		"":                  "",
	} {
		if got, err := templateText(given); err != nil || got != want {
			t.Errorf("template %q: got %q, %v; want %q", given, got, err, want)
		}
	}
}

func TestHelpShowsEveryOption(t *testing.T) {
	for _, arg := range []string{"--help", "-h"} {
		if _, _, err := parsed(t, "", nil, arg); !errors.Is(err, options.ErrDone) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	var page bytes.Buffer
	command := DefaultConfig().Command()
	command.WriteHelp(&page)
	developers, err := os.ReadFile("../../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range command.Options {
		if (o.Name != "debug") != strings.Contains(page.String(), "--"+o.Name) {
			t.Errorf("the help page lacks --%s, or has what is for developers", o.Name)
		}
		for pair := range strings.SplitSeq(o.Value.String(), ",") {
			if key, _, _ := strings.Cut(pair, "="); o.Name == "debug" && !strings.Contains(string(developers), "\n| `"+key+"` | ") {
				t.Errorf("CONTRIBUTING.md has no row for the debug key %s", key)
			}
		}
	}
	for line := range strings.Lines(page.String()) {
		if len(line) > 94 {
			t.Errorf("line of %d columns: %s", len(line), line)
		}
	}
}

func TestMaxNewTokensDependOnModel(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want int
	}{
		"the default model":     {nil, 256},
		"another model":         {[]string{"--model", "config_test.go"}, 1024},
		"auto":                  {[]string{"--model", "config_test.go", "--max-new-tokens", "auto"}, 1024},
		"a number":              {[]string{"--max-new-tokens", "7"}, 7},
		"a number and a model":  {[]string{"--model", "config_test.go", "--max-new-tokens", "7"}, 7},
		"as much as by default": {[]string{"--max-new-tokens", "1024"}, 1024},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := parsed(t, "", nil, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Inference.MaxNewTokens(); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

// TestErrorsOfModelNameFlags: packages below name their fields.
func TestErrorsOfModelNameFlags(t *testing.T) {
	c := DefaultConfig()
	for field, flag := range map[string]string{
		"Config.Path":                  "--model",
		"Config.KVType":                "--dtype",
		"Config.ContextLength":         "--context-length",
		"Config.Scheduler.DraftRows":   "--debug draft-rows",
		"Config.Scheduler.BatchTokens": "--debug batch-size",
		"Config.CacheRAM":              "--cache-ram",
		"Config.Agent.MaxNewTokens":    "--max-new-tokens",
		"Config.Agent.Summary.Budget":  "--agent budget",
		"Config.Prompt.ChatTemplate":   "--chat-template",
		"Config.Format":                "--model-format",
		"Config.Agent.Kind":            "--agent",
		"Config.Log":                   "Config.Log", // no option fills it
	} {
		if got := c.Command().NameFields(&c.Inference, errors.New("see "+field+" and more")); got.Error() != "see "+flag+" and more" {
			t.Errorf("%s: got %q", field, got)
		}
	}
}

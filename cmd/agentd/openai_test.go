package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// chatModel serves the tiny model and the adapter "careful" with OpenAI's API.
func chatModel(t *testing.T) *running {
	t.Helper()
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	adapter := filepath.Join(t.TempDir(), "careful.gguf")
	if err := synth.WriteAdapter(adapter, spec, synth.Adapter{Rank: 4, Alpha: 8, Seed: 3, Gain: 1}); err != nil {
		t.Fatal(err)
	}
	return serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--lora", "careful="+adapter, "--max-new-tokens", "24")
}

// openAIPackages are what the client needs.
var openAIPackages = []string{
	"openai==3.57.0", "httpx2==2.16.2", "httpcore2==2.16.2", "h11==0.16.0", "truststore==0.10.5", "anyio==4.16.0", "idna==3.20", "certifi==2026.10.19.post1", "sniffio==1.3.1",
	"jiter==0.19.0", "pydantic==2.14.4", "pydantic_core==2.50.5", "annotated-types==0.8.0", "typing_extensions==4.16.0", "typing-inspection==0.4.5",
}

// langChainPackages are what LangChain's client needs besides.
var langChainPackages = append([]string{
	"langchain-openai==1.7.4", "langchain-core==1.8.3", "langchain-protocol==0.0.20", "langsmith==0.15.1", "PyYAML==6.0.4", "charset-normalizer==3.5.3", "distro==1.9.0",
	"httpcore==1.0.9", "httpx==0.28.1", "jsonpatch==1.48", "jsonpointer==3.12", "orjson==3.13.0", "packaging==26.4", "regex==2026.11.19", "requests-toolbelt==1.0.0",
	"requests==2.34.2", "tenacity==9.2.1", "tiktoken==0.14.0", "urllib3==2.8.0", "uuid_utils==0.19.0", "websockets==17.4", "xxhash==4.1.0", "zstandard==0.25.0",
}, openAIPackages...)

func TestReleasedPythonClients(t *testing.T) {
	t.Parallel()
	for program, packages := range map[string][]string{"openai_client.py": openAIPackages, "langchain_client.py": langChainPackages} {
		t.Run(program, func(t *testing.T) {
			p := installedPython(t, packages)
			r := chatModel(t)
			command := p.command(t, filepath.Join("testdata", program), r.url+"/v1")
			command.Env = append(command.Env, "NO_PROXY=127.0.0.1", "LANGSMITH_TRACING=false")
			if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "all is well") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestModelHasItsAliasAndAnyNameAsksIt(t *testing.T) {
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--model-alias", "robots", "--max-new-tokens", "4")
	const chat = `{"model": "gpt-9", "messages": [{"role": "user", "content": "a"}]}`
	for path, body := range map[string]string{"GET /v1/models": "", "POST /v1/chat/completions": chat, "POST /v1/completions": `{"model": "x", "prompt": "a"}`} {
		method, path, _ := strings.Cut(path, " ")
		status, answer, err := exchange(method, r.url+path, body)
		if err != nil || status != 200 || !strings.Contains(answer, `"model":"robots"`) && !strings.Contains(answer, `"id":"robots"`) {
			t.Errorf("%s: %d %s, %v", path, status, answer, err)
		}
	}
}

// The body is that of openai-agents with an output_type.
func TestAnswersBesideToolsAreCallsOrFitTheFormat(t *testing.T) {
	t.Parallel()
	r := chatModel(t)
	status, answer, err := exchange("POST", r.url+"/v1/chat/completions", `{"messages": [{"role": "system", "content": "You control a robot."}, {"role": "user", "content": "Go."}],
		"tools": [{"type": "function", "function": {"name": "go_to", "description": "", "parameters": {"properties": {"room": {"enum": ["hall", "attic"]}}, "required": ["room"], "type": "object"}, "strict": true}}],
		"response_format": {"type": "json_schema", "json_schema": {"name": "final_output", "strict": true, "schema": {"properties": {"on": {"title": "On", "type": "boolean"}},
			"required": ["on"], "title": "Plan", "type": "object", "additionalProperties": false}}}, "max_tokens": 200, "temperature": 3, "top_p": 1, "top_k": 0, "seed": 1, "n": 24}`)
	var got struct {
		Choices []struct {
			Message struct {
				Content   *string
				ToolCalls []struct{ Function struct{ Name string } } `json:"tool_calls"`
			}
			Reason string `json:"finish_reason"`
		}
	}
	if err != nil || status != 200 || json.Unmarshal([]byte(answer), &got) != nil {
		t.Fatalf("%d %s, %v", status, answer, err)
	}
	calls, values := 0, 0
	for _, c := range got.Choices {
		var value struct{ On *bool }
		switch m := c.Message; {
		case c.Reason == "tool_calls" && len(m.ToolCalls) == 1 && m.ToolCalls[0].Function.Name == "go_to":
			calls++
		case c.Reason == "stop" && m.Content != nil && json.Unmarshal([]byte(*m.Content), &value) == nil && value.On != nil:
			values++
		default:
			t.Errorf("neither a call nor a value: %+v", c)
		}
	}
	if calls == 0 || values == 0 {
		t.Errorf("%d calls and %d values: %s", calls, values, answer)
	}
}

func TestCompletionsCanBeSwitchedOff(t *testing.T) {
	r := startFake(t, ready(newFakeModel()), "--completions=false")
	for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/v1/decisions", "/v1/systemone", "/tokenize"} {
		if status, _, err := exchange("POST", r.url+path, "{}"); err != nil || status != 404 {
			t.Errorf("%s: %d, %v", path, status, err)
		}
	}
}

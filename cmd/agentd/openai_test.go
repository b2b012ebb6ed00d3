package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

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
	return serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--lora", "careful="+adapter, "--completions", "--max-new-tokens", "24")
}

func TestOfficialGoClientOfOpenAI(t *testing.T) {
	r := chatModel(t)
	c := openai.NewClient(option.WithBaseURL(r.url+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
	ctx := t.Context()

	models, err := c.Models.List(ctx)
	if err != nil || len(models.Data) != 2 {
		t.Fatalf("%+v, %v", models, err)
	}
	model := models.Data[0].ID
	hello := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief."), openai.UserMessage("Hello")}

	t.Run("chat with two choices", func(t *testing.T) {
		got, err := c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: model, Messages: hello, N: openai.Int(2), Seed: openai.Int(3), Temperature: openai.Float(3), TopP: openai.Float(1), MaxCompletionTokens: openai.Int(12)})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Choices) != 2 || got.Usage.PromptTokens == 0 || got.Usage.CompletionTokens == 0 || got.Choices[0].Message.Content == got.Choices[1].Message.Content {
			t.Errorf("%s", got.RawJSON())
		}
	})
	t.Run("stream equals the answer at once", func(t *testing.T) {
		p := openai.ChatCompletionNewParams{Model: model, Messages: hello, Seed: openai.Int(3), MaxCompletionTokens: openai.Int(12)}
		whole, err := c.Chat.Completions.New(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
		stream := c.Chat.Completions.NewStreaming(ctx, p)
		var all openai.ChatCompletionAccumulator
		chunks := 0
		for stream.Next() {
			all.AddChunk(stream.Current())
			chunks++
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		if len(all.Choices) != 1 || all.Choices[0].Message.Content != whole.Choices[0].Message.Content || all.Choices[0].FinishReason != whole.Choices[0].FinishReason {
			t.Errorf("streamed %+v\nwant %s", all.Choices, whole.RawJSON())
		}
		if chunks < 4 || all.Usage.CompletionTokens != whole.Usage.CompletionTokens {
			t.Errorf("%d chunks, usage %+v", chunks, all.Usage)
		}
	})
	tool := openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "set_light", Description: openai.String("Sets a light."),
		Parameters: shared.FunctionParameters{"type": "object", "additionalProperties": false, "required": []string{"on"},
			"properties": map[string]any{"on": map[string]any{"type": "boolean"}}},
	})
	p := openai.ChatCompletionNewParams{Model: model, Messages: hello, Tools: []openai.ChatCompletionToolUnionParam{tool},
		ToolChoice: openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}, MaxCompletionTokens: openai.Int(100)}
	isCall := func(t *testing.T, m openai.ChatCompletionMessage, reason string) {
		t.Helper()
		if len(m.ToolCalls) != 1 || reason != "tool_calls" || m.ToolCalls[0].Function.Name != "set_light" {
			t.Fatalf("%+v, %s", m, reason)
		}
		var arguments map[string]bool
		if err := json.Unmarshal([]byte(m.ToolCalls[0].Function.Arguments), &arguments); err != nil || len(arguments) != 1 {
			t.Errorf("arguments %s", m.ToolCalls[0].Function.Arguments)
		}
	}
	t.Run("required tool is called with arguments that fit", func(t *testing.T) {
		got, err := c.Chat.Completions.New(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		isCall(t, got.Choices[0].Message, got.Choices[0].FinishReason)
		next := p
		next.Messages = append(hello[:2:2], got.Choices[0].Message.ToParam(), openai.ToolMessage(`{"status": "done"}`, got.Choices[0].Message.ToolCalls[0].ID))
		if _, err := c.Chat.Completions.New(ctx, next); err != nil {
			t.Errorf("after its result: %v", err)
		}
	})
	t.Run("tool call in a stream", func(t *testing.T) {
		stream := c.Chat.Completions.NewStreaming(ctx, p)
		var all openai.ChatCompletionAccumulator
		for stream.Next() {
			all.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		isCall(t, all.Choices[0].Message, all.Choices[0].FinishReason)
	})
	t.Run("json schema", func(t *testing.T) {
		got, err := c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: model, Messages: hello, ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{
			OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "verdict",
				Schema: map[string]any{"type": "object", "properties": map[string]any{"good": map[string]any{"type": "boolean"}}, "required": []string{"good"}, "additionalProperties": false}}}}})
		if err != nil {
			t.Fatal(err)
		}
		var verdict struct{ Good *bool }
		if err := json.Unmarshal([]byte(got.Choices[0].Message.Content), &verdict); err != nil || verdict.Good == nil {
			t.Errorf("%s", got.Choices[0].Message.Content)
		}
	})
	t.Run("text completion", func(t *testing.T) {
		got, err := c.Completions.New(ctx, openai.CompletionNewParams{Model: openai.CompletionNewParamsModel(model), MaxTokens: openai.Int(4), Seed: openai.Int(1),
			Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Hello")}})
		if err != nil || len(got.Choices) != 1 || got.Usage.CompletionTokens == 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
	t.Run("adapter is a model", func(t *testing.T) {
		answers := map[string]bool{}
		for _, name := range []string{model, "careful", model, "careful"} {
			got, err := c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: name, Messages: hello, Temperature: openai.Float(0), MaxCompletionTokens: openai.Int(12)})
			if err != nil || got.Model != name {
				t.Fatalf("%v, %v", got, err)
			}
			answers[got.Choices[0].Message.Content] = true
		}
		if models.Data[1].ID != "careful" || len(answers) != 2 {
			t.Errorf("%d different answers, models %+v", len(answers), models.Data)
		}
	})
	t.Run("error names the field", func(t *testing.T) {
		_, err := c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "another", Messages: hello})
		var refused *openai.Error
		if !errors.As(err, &refused) || refused.StatusCode != http.StatusBadRequest || refused.Param != "model" || !strings.Contains(refused.Message, "is not served here; the models are "+model+", careful") {
			t.Errorf("got %v", err)
		}
	})
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

func TestCompletionsAreOffByDefault(t *testing.T) {
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3))
	status, _, err := exchange("POST", r.url+"/v1/chat/completions", `{"messages": [{"role": "user", "content": "a"}]}`)
	if err != nil || status != 404 {
		t.Errorf("%d, %v", status, err)
	}
}

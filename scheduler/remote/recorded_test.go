package remote

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"agentd/scheduler/generation"
)

// exchanged is one call of a real engine with its answer.
type exchanged struct {
	Path    string          `json:"path"`
	Request json.RawMessage `json:"request"`
	Answer  json.RawMessage `json:"answer"`
}

// recordedCalls are the calls of the recording: without and with a grammar, and one that
// ends by itself. The prompt is "<|im_start|>assistant\n" of the default model.
func recordedCalls() map[string]*call {
	base := func() *call {
		r := request(2)
		r.Prompt, r.MaxTokens = []generation.Token{1, 1000, 200}, 6
		return &call{Request: r, model: "household", n: 2, seed: 7, ends: []generation.Token{0, 2}, excluded: []generation.Token{1}}
	}
	limited, constrained, greedy := base(), base(), base()
	constrained.grammar = "root ::= a\na ::= | \"o\" \"k\"\n"
	greedy.n, greedy.Temperature, greedy.grammar = 1, 0, "root ::= \"ok\"\n"
	return map[string]*call{"limited": limited, "constrained": constrained, "greedy": greedy}
}

// TestRecordedAnswersOfVLLM replays what vLLM 0.32 answered to the calls of agentd. With
// AGENTD_TEST_VLLM, the URL of one that serves the default model, it records them again.
func TestRecordedAnswersOfVLLM(t *testing.T) {
	file := filepath.Join("testdata", "vllm-0.32.json")
	recorded := map[string]exchanged{}
	url := os.Getenv("AGENTD_TEST_VLLM")
	if url == "" {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &recorded); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range recordedCalls() {
		body, err := vllm{}.body(c)
		if err != nil {
			t.Fatal(err)
		}
		if url != "" {
			recorded[name] = exchanged{vllm{}.path(), body, posted(t, url+vllm{}.path(), body)}
		}
		var asked bytes.Buffer
		if err := json.Compact(&asked, recorded[name].Request); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if asked.String() != string(body) {
			t.Errorf("%s: agentd asks\n%s\nand the recording\n%s\nRun make test-vllm.", name, body, asked.String())
		}
		a, err := vllm{}.read(recorded[name].Answer, c.n)
		if err == nil {
			err = a.inOrder(c.n)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a.prompt != 3 || a.cached < 0 {
			t.Errorf("%s: %d prompt tokens, %d cached", name, a.prompt, a.cached)
		}
		for _, done := range a.choices {
			last := done.ids[len(done.ids)-1]
			ended := last == 0 || last == 2
			if done.refused != "" || done.length == ended || name == "limited" && len(done.ids) > 6 {
				t.Errorf("%s: %+v", name, done)
			}
			if name == "greedy" && !ended {
				t.Errorf("%s did not end: %+v", name, done)
			}
		}
	}
	if url != "" {
		text, err := json.MarshalIndent(recorded, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func posted(t *testing.T, url string, body []byte) []byte {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v %s", res.Status, err, text)
	}
	return text
}

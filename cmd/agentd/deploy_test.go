package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"agentd/cmd/agentd/serve"
)

// pickerConfig is the part of deploy/picker/agentd.yaml that concerns agentd.
type pickerConfig struct {
	Plugins []struct {
		Type       string
		Parameters struct {
			EngineConfigs []map[string]string `yaml:"engineConfigs"`
		}
	}
	RequestHandler struct {
		Parsers []struct {
			PluginRef string `yaml:"pluginRef"`
		}
	} `yaml:"requestHandler"`
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// picker is a proxy that refuses what the openai-parser of llm-d's endpoint picker refuses: a
// body without the member that OpenAI's API at the end of the path needs.
func picker(t *testing.T, to string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			needs := "prompt"
			for suffix, member := range map[string]string{"/responses": "input", "/chat/completions": "messages"} {
				if strings.HasSuffix(r.URL.Path, suffix) {
					needs = member
				}
			}
			text, err := io.ReadAll(r.Body)
			var members map[string]json.RawMessage
			if err != nil || json.Unmarshal(text, &members) != nil || members[needs] == nil {
				http.Error(w, "must have "+needs+" field", http.StatusBadRequest)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(text))
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestPickersParserTakesCallsToEnginesButNoInputs(t *testing.T) {
	engine := serveModel(t)
	r := serveEngines(t, []string{picker(t, engine.url)})
	r.ask("r1", user(1, "Hello.").outputs(2))
	if status, _, err := exchange("POST", picker(t, r.url)+"/v1/responses", body(t, "r1", user(1, "Hello."))); err != nil || status != http.StatusBadRequest {
		t.Errorf("got %d, %v: this picker would not need the passthrough-parser", status, err)
	}
	var c pickerConfig
	readYAML(t, "picker/agentd.yaml", &c)
	if p := c.RequestHandler.Parsers; len(p) != 1 || p[0].PluginRef != "passthrough-parser" {
		t.Errorf("deploy/picker/agentd.yaml has the parsers %v", p)
	}
}

func TestPickerConfigurationNamesExportedGauges(t *testing.T) {
	var c pickerConfig
	readYAML(t, "picker/agentd.yaml", &c)
	r := serveModel(t)
	_, page, err := exchange("GET", r.url+"/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range c.Plugins {
		for _, engine := range p.Parameters.EngineConfigs {
			for key, name := range engine {
				if key == "name" {
					continue
				}
				found++
				if !strings.Contains(page, "# TYPE "+name+" gauge\n") {
					t.Errorf("%s is %s, which is no exported gauge", key, name)
				}
			}
		}
	}
	if want := `agentd_cache_config_info{block_size="16",num_gpu_blocks="512"} 1`; !strings.Contains(page, want) || found != 4 {
		t.Errorf("%d gauges; want 4 and %s", found, want)
	}
}

func TestVariantsOfTheChartHaveValidOptions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "deploy", "helm", "agentd", "values-*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var values struct{ Config map[string]any }
			readYAML(t, "helm/agentd/"+filepath.Base(file), &values)
			dir := t.TempDir()
			model, ok := values.Config["model"].(string)
			if !ok || !strings.HasPrefix(model, "/models/") {
				t.Fatalf("the model %v is not in the volume", values.Config["model"])
			}
			values.Config["model"] = filepath.Join(dir, "model") // its path is of the cluster
			text, err := json.Marshal(values.Config)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, "model"), "GGUF")
			writeFile(t, filepath.Join(dir, "agentd.json"), string(text))
			_, from, err := serve.Parse([]string{"--config", filepath.Join(dir, "agentd.json")}, func(string) (string, bool) { return "", false }, io.Discard)
			if err != nil {
				t.Error(err)
			}
			for key := range values.Config {
				if !slices.ContainsFunc([]string{key, strings.ReplaceAll(key, "_", "-")}, func(name string) bool { return from[name] != "" }) {
					t.Errorf("%s sets no option: %s", key, fmt.Sprint(from))
				}
			}
		})
	}
}

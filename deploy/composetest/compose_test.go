// Package composetest checks deploy/compose*.yaml by the library that compose itself is
// made of. It is a separate module, so that agentd does not depend on that library.
package composetest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"
)

const (
	base     = "../compose.yaml"
	postgres = "../compose.postgres.yaml"
)

// load reads the files as `docker compose` does, with these variables.
func load(t *testing.T, files []string, environment ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions(files, cli.WithEnv(environment))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

func TestServicesOfEachVariant(t *testing.T) {
	for _, test := range []struct {
		files []string
		want  []string
	}{
		{[]string{base}, []string{"agentd", "console", "grafana", "prometheus"}},
		{[]string{base, postgres}, []string{"agentd", "console", "grafana", "postgres", "prometheus"}},
	} {
		p, err := load(t, test.files, "POSTGRES_PASSWORD=secret")
		if err != nil {
			t.Fatal(err)
		}
		names := p.ServiceNames()
		slices.Sort(names)
		if !slices.Equal(names, test.want) {
			t.Errorf("%q: %q, want %q", test.files, names, test.want)
		}
	}
}

func TestVariablesReachServices(t *testing.T) {
	p, err := load(t, []string{base, postgres}, "AGENTD_MODEL=/models/a.gguf", "AGENTD_MODELS=/m", "AGENTD_IMAGE=other:1", "POSTGRES_PASSWORD=secret", "AGENTD_STORE_KEYS=/k")
	if err != nil {
		t.Fatal(err)
	}
	agentd, console := p.Services["agentd"], p.Services["console"]
	for what, value := range map[string][2]string{
		"the model":               {*agentd.Environment["AGENTD_MODEL"], "/models/a.gguf"},
		"coaches":                 {*agentd.Environment["AGENTD_COACHING_ALLOW"], "console"},
		"the models":              {agentd.Volumes[0].Source, "/m"},
		"the image":               {agentd.Image, "other:1"},
		"the image's file":        {agentd.Build.Dockerfile, "deploy/Containerfile"},
		"the console's image":     {console.Image, "other:1"},
		"the keys":                {p.Secrets["store-keys"].File, "/k"},
		"where the keys are":      {*agentd.Environment["AGENTD_STORE_KEY_FILE"], "/run/secrets/" + agentd.Secrets[0].Source},
		"the server's password":   {*agentd.Environment["PGPASSWORD"], "secret"},
		"the database's password": {*p.Services["postgres"].Environment["POSTGRES_PASSWORD"], "secret"},
	} {
		if value[0] != value[1] {
			t.Errorf("%s: %q, want %q", what, value[0], value[1])
		}
	}
}

func TestDatabaseNeedsPassword(t *testing.T) {
	if _, err := load(t, []string{base, postgres}); err == nil || !strings.Contains(err.Error(), "POSTGRES_PASSWORD") {
		t.Errorf("got %v", err)
	}
}

// TestMountedFilesExist: compose would make a directory of a missing file.
func TestMountedFilesExist(t *testing.T) {
	p, err := load(t, []string{base, postgres}, "POSTGRES_PASSWORD=secret")
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range p.Services {
		if service.Build != nil {
			if _, err := os.Stat(filepath.Join(service.Build.Context, service.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", service.Name, err)
			}
		}
		for _, volume := range service.Volumes {
			if volume.Type != types.VolumeTypeBind || volume.Target == "/models" {
				continue
			}
			if _, err := os.Stat(volume.Source); err != nil {
				t.Errorf("%s: %v", service.Name, err)
			}
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to the network", service.Name, port.Published)
			}
		}
	}
}

// TestFilesOfServicesAgree: Prometheus scrapes the service of this name, and Grafana
// asks that Prometheus and finds the dashboard.
func TestFilesOfServicesAgree(t *testing.T) {
	p, err := load(t, []string{base})
	if err != nil {
		t.Fatal(err)
	}
	var scrape struct {
		Configs []struct {
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	decode(t, "../prometheus/compose.yml", &scrape)
	for _, config := range scrape.Configs {
		for _, static := range config.Static {
			for _, target := range static.Targets {
				host, port, _ := strings.Cut(target, ":")
				service, err := p.GetService(host)
				if err != nil || !slices.ContainsFunc(service.Ports, func(c types.ServicePortConfig) bool { return port == "8888" && c.Target == 8888 }) {
					t.Errorf("Prometheus scrapes %s, which no service is: %v", target, err)
				}
			}
		}
	}
	var sources struct {
		Datasources []struct{ URL string }
	}
	decode(t, "../grafana/provisioning/datasources/prometheus.yaml", &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].URL != "http://prometheus:9090" {
		t.Errorf("Grafana asks %v", sources.Datasources)
	}
	var dashboards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	decode(t, "../grafana/provisioning/dashboards/agentd.yaml", &dashboards)
	if len(dashboards.Providers) != 1 {
		t.Fatalf("Grafana has %d providers of dashboards", len(dashboards.Providers))
	}
	want := dashboards.Providers[0].Options.Path + "/agentd.json"
	if !slices.ContainsFunc(p.Services["grafana"].Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == want }) {
		t.Errorf("nothing is mounted at %s", want)
	}
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

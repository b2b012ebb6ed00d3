package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleasedTrainersWorkUnmodified is for make test-trainers, which has their packages and the weights.
func TestReleasedTrainersWorkUnmodified(t *testing.T) {
	vllm, packages, dir := os.Getenv("AGENTD_TRAINERS_PYTHON"), os.Getenv("AGENTD_TRAINERS_PACKAGES"), os.Getenv("AGENTD_TRAINERS_WEIGHTS")
	if vllm == "" {
		t.Skip("no AGENTD_TRAINERS_PYTHON; make test-trainers sets it")
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "trainer+weights:"+weightsToken+"\n")
	r := serveModel(t, "--model", filepath.Join(dir, "qwen"), "--model-alias", "qwen", "--weights-dir", dir, "--auth-token-file", tokens, "--context-length", "4096")
	url := strings.Replace(r.url, "http://", "http://trainer:"+weightsToken+"@", 1)
	for _, client := range []struct {
		program, packages string
		args              []string
	}{
		{"prime_rl_calls.py", "clients", nil}, {"trl_client.py", "clients", nil}, {"skyrl_client.py", "skyrl", nil},
		{"nemo_gym_model.py", "nemo-gym clients", nil}, {"nemo_gym_model.py", "nemo-gym clients", []string{"tokenize"}}, {"verifiers_client.py", "verifiers clients", nil},
	} {
		t.Run(client.program+strings.Join(client.args, ""), func(t *testing.T) {
			p := python{path: vllm}
			if client.packages == "skyrl" {
				p.path = "python3.12"
			}
			for _, name := range strings.Fields(client.packages) {
				p.packages = append(p.packages, filepath.Join(packages, name))
			}
			program, err := filepath.Abs(filepath.Join("testdata", "trainers", client.program))
			if err != nil {
				t.Fatal(err)
			}
			command := p.command(t, append([]string{program, url, dir}, client.args...)...)
			command.Dir = t.TempDir() // NeMo Gym writes what it is asked into the directory
			command.Env = append(command.Env, "NO_PROXY=127.0.0.1", "HF_HUB_OFFLINE=1")
			if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "all is well") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

package main

import (
	"bytes"
	"path/filepath"
	"testing"
)

// clientPackages are what clients/python and its tests need, and flit to install it.
var clientPackages = []string{
	"httpx==0.28.1", "httpcore==1.0.9", "h11==0.16.0", "anyio==4.16.0", "idna==3.20", "certifi==2026.10.19.post1", "sniffio==1.3.1", "typing_extensions==4.16.0",
	"pydantic==2.14.4", "pydantic_core==2.50.5", "annotated-types==0.8.0", "typing-inspection==0.4.5", "flit_core==4.2.0",
}

// TestPythonClientWorksWithTheServer: clients/python is installed as users do it, and
// its tests ask a server with the default model.
func TestPythonClientWorksWithTheServer(t *testing.T) {
	source := filepath.Join("..", "..", "clients", "python")
	p := installedPython(t, clientPackages).with(t, source)
	r := serveModel(t)
	command := p.command(t, "-m", "unittest", "discover", "-v", "-s", filepath.Join(source, "tests"))
	command.Env = append(command.Env, "AGENTD_URL="+r.url, "NO_PROXY=127.0.0.1")
	out, err := command.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("test_two_turns_go_on_with_the_memory")) || bytes.Contains(out, []byte("skipped")) {
		t.Errorf("%v\n%s", err, out)
	}
}

package console

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOptionsHaveDefaultsAndErrorsNameFix(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/data")
	c, err := parse(nil, io.Discard)
	if err != nil || c.HTTP.Host != "127.0.0.1" || c.HTTP.Port != 8890 || c.Console.Claim != 2*time.Minute || c.Console.Keep != 168*time.Hour || c.DataDir != "/data/agentd/console" {
		t.Errorf("defaults: %+v (%v)", c, err)
	}
	dir := t.TempDir()
	file, tokens := filepath.Join(dir, "file"), filepath.Join(dir, "tokens")
	for path, text := range map[string]string{file: "short\n", tokens: "0123456789abcdef\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err = parse([]string{"--port=0", "--claim", "30s", "--keep", "720h", "--agents-from", "10.0.0.1, ::1,10.1.0.0/16",
		"--public-host", "a.example.org,b.example.org", "--agent", "http://127.0.0.1:8888", "--agent-token-file", tokens, "--auth-token-file", tokens}, io.Discard)
	if err != nil || c.Console.Keep != 720*time.Hour || c.Console.Claim != 30*time.Second || c.HTTP.Port != 0 {
		t.Errorf("flags: %+v (%v)", c, err)
	}
	if prefixes := c.Console.AgentsFrom; len(prefixes) != 3 || prefixes[0].String() != "10.0.0.1/32" || prefixes[2].String() != "10.1.0.0/16" {
		t.Errorf("--agents-from is %v", prefixes)
	}
	for name, test := range map[string]struct {
		args  []string
		wants []string
	}{
		"unknown option":           {[]string{"--prot", "1"}, []string{"--prot", "did you mean --port"}},
		"argument":                 {[]string{"serve"}, []string{`"serve"`, "agentd console --help"}},
		"host name":                {[]string{"--host", "example.org"}, []string{"--host", "0.0.0.0"}},
		"port":                     {[]string{"--port", "70000"}, []string{"--port", "65535"}},
		"public host with a port":  {[]string{"--public-host", "a.org:80"}, []string{"--public-host", "without scheme and port"}},
		"networks":                 {[]string{"--agents-from", "10.0.0.0/8,x"}, []string{"--agents-from", `"x"`, "10.0.0.0/8"}},
		"half of TLS":              {[]string{"--tls-cert", file}, []string{"--tls-cert", "--tls-key"}},
		"the other half":           {[]string{"--tls-key", file}, []string{"--tls-key", "--tls-cert"}},
		"a file as a directory":    {[]string{"--data-dir", file}, []string{"--data-dir", "not a directory"}},
		"a claim too short":        {[]string{"--claim", "1s"}, []string{"--claim", "10s"}},
		"keeping nothing":          {[]string{"--keep", "0s"}, []string{"--keep", "168h"}},
		"tokens too short":         {[]string{"--auth-token-file", file}, []string{"--auth-token-file", "line 1"}},
		"no token file":            {[]string{"--auth-token-file", file + "x"}, []string{"--auth-token-file", "no such file"}},
		"token of no agent":        {[]string{"--agent-token-file", tokens}, []string{"--agent-token-file", "--agent"}},
		"agent that is no URL":     {[]string{"--agent", "localhost:8888"}, []string{"--agent", "http"}},
		"log level":                {[]string{"--log-level", "loud"}, []string{"--log-level", "debug"}},
		"several problems at once": {[]string{"--host", "x", "--public-host", "a:1"}, []string{"--host", "--public-host"}},
	} {
		_, err := parse(test.args, io.Discard)
		for _, want := range test.wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", name, err, want)
			}
		}
	}
}

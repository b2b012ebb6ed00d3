package hub

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestChoiceOfFiles(t *testing.T) {
	several := []string{"m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-IQ4_K_M.gguf", "m-Q4_K.gguf", "mmproj-m-Q4_K_M.gguf", "README.md"}
	split := []string{"BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf", "Q8_0/m-q8_0-00001-of-00002.gguf", "Q8_0/m-q8_0-00002-of-00002.gguf"}
	weights := []string{"model.safetensors", "config.json", "x/config.json", "pytorch_model.bin"}
	for name, test := range map[string]struct {
		choice string
		files  []string
		want   []string // none: an error with the words of refused
		target string
		words  string
	}{
		"the only one":              {"", []string{"a.json", "x/m-F16.GGUF", "x/mmproj-f16.gguf"}, []string{"x/m-F16.GGUF"}, "x/m-F16.GGUF", ""},
		"Q4_K_M":                    {"", several, several[:1], several[0], ""},
		"Q8_0 without Q4_K_M":       {"", several[1:], several[1:2], several[1], ""},
		"neither":                   {"", several[2:], nil, "", "m-IQ4_K_M.gguf, m-Q4_K.gguf"},
		"a quantization":            {"q4_k", several, several[3:4], several[3], ""},
		"a file":                    {"m-Q4_K.gguf", several, several[3:4], several[3], ""},
		"projector by name":         {"mmproj-m-Q4_K_M.gguf", several, nil, "", "0 files"},
		"projector in a folder":     {"", []string{"mmproj/m.gguf", "b.gguf"}, []string{"b.gguf"}, "b.gguf", ""},
		"several with it":           {"Q8_0", []string{"a-Q8_0.gguf", "b-Q8_0.gguf"}, nil, "", "2 files"},
		"all parts":                 {"BF16", split, split[:2], split[0], ""},
		"all parts by default":      {"", split, split[2:], split[2], ""},
		"all parts by the last one": {split[1], split, split[:2], split[0], ""},
		"a missing part":            {"", split[:3], nil, "", "m-q8_0-00002-of-00002.gguf is missing"},
		"no first part":             {"", split[1:2], nil, "", ""},
		"safetensors":               {"", weights, weights[:2], "", ""},
		"safetensors asked for":     {Safetensors, append(several, weights...), weights[:2], "", ""},
		"GGUF of safetensors":       {"Q8_0", weights, nil, "", "no GGUF files"},
		"no safetensors":            {Safetensors, several, nil, "", "no safetensors"},
		"missing safetensors":       {"", []string{"m-00002-of-00002.safetensors"}, nil, "", "m-00001-of-00002.safetensors is missing"},
		"nothing":                   {"", nil, nil, "", "no safetensors"},
	} {
		got, target, err := Name{"o/r", test.choice}.choose(test.files)
		if len(test.want) == 0 {
			if err == nil || !strings.Contains(err.Error(), test.words) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, test.want) || target != test.target {
			t.Errorf("%s: %q, %q, %v", name, got, target, err)
		}
	}
}

func TestNamesOfModels(t *testing.T) {
	for text, want := range map[string]Name{
		"Qwen/Qwen3-8B-GGUF":           {Repo: "Qwen/Qwen3-8B-GGUF"},
		"a_b/c.d:Q8_0":                 {Repo: "a_b/c.d", Choice: "Q8_0"},
		"a/b:dir/m.gguf":               {Repo: "a/b", Choice: "dir/m.gguf"},
		"a/b:safetensors":              {Repo: "a/b", Choice: Safetensors},
		"a":                            {},
		"":                             {},
		"a/b/c":                        {},
		"/a":                           {},
		"a/":                           {},
		"../b":                         {},
		"a/..":                         {},
		"a/.b":                         {},
		"-a/b":                         {},
		"a/b:":                         {},
		"a/b:/m.gguf":                  {},
		"a/b:../m.gguf":                {},
		"a/b:x/../../m.gguf":           {},
		"https://huggingface.co/a/b":   {},
		"a/b?x":                        {},
		"a/b c":                        {},
		"models/m.gguf\nother: header": {},
	} {
		got, err := Parse(text)
		if got != want || (err == nil) != (want.Repo != "") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// FuzzNames: whatever a name is, its paths are below the cache.
func FuzzNames(f *testing.F) {
	for _, text := range []string{"a/b:Q8_0", "a/..:x", "a/b:../x.gguf", "..", "a/b:\x00.gguf"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := Parse(text)
		if err != nil {
			return
		}
		p := &pull{name: name, folder: filepath.Join("/cache", "models--"+strings.ReplaceAll(name.Repo, "/", "--")), commit: "c"}
		if path := p.snapshot(name.Choice); !strings.HasPrefix(path, "/cache/models--") || strings.Contains(path, "/../") || !strings.Contains(path, "/snapshots/c") {
			t.Errorf("%q becomes %s", text, path)
		}
		_, target, err := name.choose([]string{name.Choice, "m.gguf"})
		if err == nil && !validFile(target) && target != "" {
			t.Errorf("%q gives %q", text, target)
		}
	})
}

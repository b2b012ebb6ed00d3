package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"agentd/llama"
	"agentd/llama/checkpoint/checkpointtest"
	"agentd/scheduler/remote"
)

var update = flag.Bool("update", false, "write testdata/tensors.golden with what the converter of llama.cpp writes")

const golden = "testdata/tensors.golden"

// converter is the variable with the path of a Python that has torch and transformers. make test-vllm sets it.
const converter = "AGENTD_CONVERTER_PYTHON"

// summary lists the tensors of a GGUF file: type, shape, and the digest of the data.
func summary(t *testing.T, name string, data []byte) (lines []string) {
	t.Helper()
	for _, o := range readTensors(t, data) {
		sum := sha256.Sum256(o.data)
		lines = append(lines, fmt.Sprintf("%s %s type %d shape %v sha256 %x", name, o.name, o.kind, o.shape, sum[:8]))
	}
	slices.Sort(lines)
	return lines
}

// reference writes a checkpoint, or an adapter of base, as llama.cpp's converter does, and returns the path.
func reference(t *testing.T, pre, dir string, base ...string) string {
	t.Helper()
	source, err := filepath.Abs("../../third_party/llama.cpp")
	if err != nil {
		t.Fatal(err)
	}
	out := dir + ".gguf"
	script(t, "reference.py", append([]string{source, pre, dir, out}, base...)...)
	return out
}

// script runs a program of testdata.
func script(t *testing.T, name string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Getenv(converter), append([]string{filepath.Join("testdata", name)}, args...)...)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, text)
	}
}

// logits are those after each of 40 random tokens.
func logits(t *testing.T, path string) []float32 {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	prompt := make([]llama.Token, 40)
	for i := range prompt {
		prompt[i] = llama.Token(random.IntN(checkpointtest.Vocab))
	}
	return logitsOf(t, path, prompt, len(prompt))
}

// logitsOf are those after the last tokens of a prompt.
func logitsOf(t *testing.T, path string, prompt []llama.Token, last int) (rows []float32) {
	t.Helper()
	m, err := llama.New(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	c, err := m.NewContext(llama.SetContext(512), llama.SetBatch(512), llama.SetMaxOutputs(last), llama.SetThreads(1, 1), llama.SetKVType("f32"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := make([]llama.Row, len(prompt))
	for i, token := range prompt {
		b[i] = llama.Row{Token: token, Pos: llama.Pos(i), Output: i >= len(prompt)-last}
	}
	if err := c.Decode(b); err != nil {
		t.Fatal(err)
	}
	for i := range last {
		row, err := c.Logits(len(prompt) - last + i)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row...)
	}
	return rows
}

// sameLogits compares two files in each bit.
func sameLogits(t *testing.T, ours, theirs string) {
	t.Helper()
	bits := func(rows []float32) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&rows[0])), 4*len(rows)) }
	if a, b := logits(t, ours), logits(t, theirs); !bytes.Equal(bits(a), bits(b)) || slices.ContainsFunc(a, func(v float32) bool { return v != v }) {
		t.Errorf("%s and %s have other logits: %v, %v", ours, theirs, a[:8], b[:8])
	}
}

// TestTensorsAreThoseOfTheConverter of llama.cpp, in each bit. The golden file is what the
// converter wrote; with a Python that has torch and transformers the test runs it again, and compares logits.
func TestTensorsAreThoseOfTheConverter(t *testing.T) {
	parent, python := t.TempDir(), os.Getenv(converter)
	var ours, theirs []string
	run := func(name, pre, dir string, written []byte, base ...string) {
		ours = append(ours, summary(t, name, written)...)
		if python == "" {
			return
		}
		out := reference(t, pre, dir, base...)
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		theirs = append(theirs, summary(t, name, data)...)
		// A GPT-OSS of ours has YaRN's parameters, which the converter leaves out (computed_test.go compares with transformers).
		if len(base) == 0 && !strings.HasPrefix(name, "gptoss") {
			path := filepath.Join(parent, "ours.gguf")
			if err := os.WriteFile(path, written, 0o600); err != nil {
				t.Fatal(err)
			}
			sameLogits(t, path, out)
		}
	}
	for _, f := range checkpointtest.All() {
		dir := f.Write(t, parent)
		var b bytes.Buffer
		if err := Write(&b, dir); err != nil {
			t.Fatal(err)
		}
		run(f.Name, f.Pre, dir, b.Bytes())
		base, ok := map[string]Base{"llama-f32": {"llama", 4, 2}, "qwen2-bf16": {"qwen2", 4, 2}}[f.Name]
		if !ok {
			continue
		}
		adapter := dir + "-lora"
		checkpointtest.WriteAdapter(t, adapter)
		b.Reset()
		if err := WriteAdapter(&b, adapter, base); err != nil {
			t.Fatal(err)
		}
		run(f.Name+"-lora", f.Pre, adapter, b.Bytes(), dir)
	}
	if *update && python != "" {
		if err := os.WriteFile(golden, []byte(strings.Join(theirs, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string][]string{"ours": ours, "the converter's now": theirs} {
		if text := strings.Join(got, "\n") + "\n"; text != string(want) && (python != "" || what == "ours") {
			t.Errorf("%s differ from %s:\n%s", what, golden, text)
		}
	}
}

// published is the variable with a GGUF file of Llama's architecture and SmolLM2's vocabulary. make test-vllm sets it.
const published = "AGENTD_CONVERTER_MODEL"

// TestPublishedModelsAreThoseOfTheConverter: tensors, logits, and the tokens of the library tokenizers. transformers
// writes the values of the model's file as a checkpoint. The default model's vocabulary serves for each pre-tokenizer.
func TestPublishedModelsAreThoseOfTheConverter(t *testing.T) {
	if os.Getenv(converter) == "" || os.Getenv(published) == "" {
		t.Skipf("no %s or no %s; make test-vllm sets them", converter, published)
	}
	files := map[string]string{"smollm": os.Getenv(published)}
	for _, pre := range []string{"llama-bpe", "qwen2", "qwen35", "gpt-4o"} {
		files[pre] = "../../inference/defaultmodel/weights/household.gguf"
	}
	for pre, file := range files {
		t.Run(pre, func(t *testing.T) {
			parent := t.TempDir()
			dir, ours := filepath.Join(parent, "model-f32"), filepath.Join(parent, "ours.gguf")
			texts := append(remote.Probes(200), strings.Join(remote.Probes(60), " "))
			text, err := json.Marshal(texts)
			if err != nil {
				t.Fatal(err)
			}
			paths := []string{filepath.Join(parent, "texts.json"), filepath.Join(parent, "tokens.json")}
			if err := os.WriteFile(paths[0], text, 0o600); err != nil {
				t.Fatal(err)
			}
			script(t, "published.py", file, pre, dir, paths[0], paths[1])
			var b bytes.Buffer
			if err := Write(&b, dir); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(ours, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			theirs := reference(t, pre, dir)
			data, err := os.ReadFile(theirs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(summary(t, pre, data), summary(t, pre, b.Bytes())); diff != "" {
				t.Errorf("tensors: %s", diff)
			}
			sameLogits(t, ours, theirs)
			m, err := llama.New(ours, llama.SetVocabOnly(true))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Free()
			var want [][]llama.Token
			if text, err = os.ReadFile(paths[1]); err != nil || json.Unmarshal(text, &want) != nil || len(want) != len(texts) {
				t.Fatal(err, len(want))
			}
			for i, text := range texts {
				if got, err := m.Vocab().Tokenize(text, false, false); err != nil || !slices.Equal(got, want[i]) {
					t.Errorf("%q: %v, want %v, %v", text, got, want[i], err)
				}
			}
		})
	}
}

// TestCheckpointsLoad in llama.cpp, each with its vocabulary.
func TestCheckpointsLoad(t *testing.T) {
	for _, f := range checkpointtest.All() {
		t.Run(f.Name, func(t *testing.T) {
			file, err := Open(t.Context(), f.Write(t, t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			m, err := llama.New(file.Name())
			if err != nil {
				t.Fatal(err)
			}
			defer m.Free()
			if n := m.Vocab().Size(); n != checkpointtest.Vocab {
				t.Errorf("%d tokens, want %d", n, checkpointtest.Vocab)
			}
			if !m.Vocab().IsEOG(256) || !m.Vocab().IsControl(259) || m.Vocab().IsControl(258) {
				t.Error("tokens have other kinds than in the checkpoint")
			}
		})
	}
}

func TestCancelledLoadStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	checkpointtest.WriteAdapter(t, dir)
	_, adapter := OpenAdapter(ctx, dir, Base{"llama", 4, 2})
	all := checkpointtest.All()
	if _, err := Open(ctx, all[0].Write(t, dir)); !errors.Is(err, context.Canceled) || !errors.Is(adapter, context.Canceled) {
		t.Errorf("a model: %v, an adapter: %v", err, adapter)
	}
}

func TestDamagedCheckpointIsRefusedByFile(t *testing.T) {
	cut := func(name string, n int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Truncate(filepath.Join(dir, name), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	change := func(key string, value any) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			change(t, filepath.Join(dir, "config.json"), checkpointtest.Object{key: value})
		}
	}
	const third = "model-00003-of-00003.safetensors"
	huge := func(t *testing.T, dir string) {
		t.Helper()
		checkpointtest.Write(t, dir, map[string]any{"tokenizer.json": `{"model":{"type":"BPE","vocab":{"a":9223372036854775807},"merges":[]},` +
			`"pre_tokenizer":{"type":"ByteLevel"}}`})
	}
	pipe := func(t *testing.T, dir string) {
		t.Helper()
		path := filepath.Join(dir, third)
		if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		damage func(*testing.T, string)
		want   []string
	}{
		"no config":         {remove("config.json"), []string{"config.json"}},
		"no tokenizer":      {remove("tokenizer.json"), []string{"tokenizer.json"}},
		"no part of three":  {remove(third), []string{third}},
		"a part is cut off": {cut(third, 20000), []string{third, "cut off"}},
		"an empty part":     {cut(third, 0), []string{third, "damaged"}},
		"another class":     {change("architectures", []string{"MambaForCausalLM"}), []string{"config.json", "MambaForCausalLM", "GGUF"}},
		"more layers":       {change("num_hidden_layers", 3), []string{"no tensor for blk.2."}},
		"fewer layers":      {change("num_hidden_layers", 1), []string{"model.layers.1.", "1 layers"}},
		"no heads":          {change("num_attention_heads", 0), []string{"0 heads"}},
		"a token too many":  {huge, []string{"tokenizer.json", "9223372036854775807"}},
		"a large template": {func(t *testing.T, dir string) {
			t.Helper()
			checkpointtest.Write(t, dir, map[string]any{"chat_template.jinja": strings.Repeat("x", 2<<20)})
		}, []string{"chat_template.jinja has 2097152 bytes; at most 1048576"}},
		"a large configuration of the tokenizer": {func(t *testing.T, dir string) {
			t.Helper()
			checkpointtest.Write(t, dir, map[string]any{"tokenizer_config.json": strings.Repeat(" ", 17<<20)})
		}, []string{"tokenizer_config.json has", "at most"}},
		"a pipe":           {pipe, []string{third, "not a file"}},
		"too many layers":  {change("num_hidden_layers", 1<<40), []string{"config.json", "size"}},
		"a negative size":  {change("head_dim", -1), []string{"config.json", "size"}},
		"quantized":        {change("quantization_config", checkpointtest.Object{"quant_method": "awq"}), []string{"config.json", "awq"}},
		"partial rotation": {change("partial_rotary_factor", 0.5), []string{"config.json", "partial_rotary_factor"}},
		"unknown rope":     {change("rope_scaling", checkpointtest.Object{"rope_type": "spiral"}), []string{"config.json", "spiral"}},
		"text instead of one": {func(t *testing.T, dir string) {
			t.Helper()
			checkpointtest.Write(t, dir, map[string]any{"config.json": "{"})
		}, []string{"config.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := checkpointtest.All()[1]
			dir := f.Write(t, t.TempDir())
			test.damage(t, dir)
			err := Write(new(bytes.Buffer), dir)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
}

func TestUnknownAdapterIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		config checkpointtest.Object
		base   Base
		want   string
	}{
		"another method": {checkpointtest.Object{"peft_type": "IA3", "feedforward_modules": []string{}}, Base{"llama", 4, 2}, `peft_type is "IA3"`},
		"no method":      {checkpointtest.Object{"r": 4}, Base{"llama", 4, 2}, `peft_type is ""`},
		"DoRA":           {checkpointtest.Object{"peft_type": "LORA", "use_dora": true}, Base{"llama", 4, 2}, "use_dora"},
		"whole modules":  {checkpointtest.Object{"peft_type": "LORA", "modules_to_save": []string{"lm_head"}}, Base{"llama", 4, 2}, "modules_to_save"},
		"another model":  {checkpointtest.Object{"peft_type": "LORA", "lora_alpha": 8}, Base{"mamba", 4, 2}, "mamba"},
		"other heads":    {checkpointtest.Object{"peft_type": "LORA", "r": 4}, Base{"llama", 5, 5}, "of 5 heads"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			checkpointtest.WriteAdapter(t, dir)
			checkpointtest.Write(t, dir, map[string]any{"adapter_config.json": test.config})
			if err := WriteAdapter(new(bytes.Buffer), dir, test.base); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	dir := t.TempDir()
	checkpointtest.WriteAdapter(t, dir)
	tensors := filepath.Join(dir, adapterFile)
	if err := os.Rename(tensors, filepath.Join(dir, "adapter_model.bin")); err != nil {
		t.Fatal(err)
	}
	err := WriteAdapter(new(bytes.Buffer), dir, Base{"llama", 4, 2})
	if err == nil || !strings.HasSuffix(err.Error(), "save the tensors as safetensors") {
		t.Errorf("tensors as PyTorch saves them: %v", err)
	}
}

func FuzzTensors(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Add([]byte("\x40\x00\x00\x00\x00\x00\x00\x00" + `{"model.norm.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}      0000`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, singleFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := openTensors(dir)
		if err != nil {
			return
		}
		defer list.close()
		for _, s := range list.byName {
			if _, known := dtypes[s.dtype]; !known {
				continue
			}
			if err := eachRow(s, func([]byte) error { return nil }); err != nil {
				t.Errorf("an accepted tensor can't be read: %v", err)
			}
		}
	})
}

func TestFilesOfOddDirectories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model[1]")
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	checkpointtest.Write(t, dir, map[string]any{"config.json": "{}", "model.safetensors": "", "README.md": ""})
	if got := Files(dir); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

func TestModelIsNamedByItsRepository(t *testing.T) {
	for dir, want := range map[string]string{
		"/cache/hub/models--Qwen--Qwen3-8B/snapshots/0123": "Qwen/Qwen3-8B", "/out/checkpoint-200/": "checkpoint-200", "/out/snapshots/a": "a",
	} {
		if got := modelName(dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

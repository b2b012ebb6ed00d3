package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/llama"
	"agentd/llama/checkpoint/checkpointtest"
)

const membersFile = "testdata/members.json"

// derived are members whose class default the code knows: it depends on other members, or on the class.
var derived = []string{"rope_parameters", "layer_types", "head_dim", "num_key_value_heads", "model_type", "text_config", "rank_pattern", "full_attention_interval"}

// TestEachMemberOfAClassHasAWord: testdata/members.json lists the members of the libraries' classes. A default of ours is
// the class's.
func TestEachMemberOfAClassHasAWord(t *testing.T) {
	text, err := os.ReadFile(membersFile)
	if err != nil {
		t.Fatal(err)
	}
	var classes map[string]jsonObject
	if err := json.Unmarshal(text, &classes); err != nil {
		t.Fatal(err)
	}
	check := func(class string, known members, defaults string) {
		t.Helper()
		var ours jsonObject
		if err := json.Unmarshal([]byte(defaults), &ours); err != nil || len(classes[class]) == 0 {
			t.Fatal(class, err)
		}
		for name, value := range classes[class] {
			switch k := known[name]; {
			case k.word == "":
				t.Errorf("%s: %s has no word", class, name)
			case slices.Contains(derived, name) || k.word == inert:
			case !isNull(ours[name]) && name == "sliding_window": // the class drops it unless use_sliding_window is true
			case !isNull(value) && string(value) != "false" && isNull(ours[name]) && (k.word == used || !k.computes(value)), !isNull(ours[name]) && !sameJSON(value, string(ours[name])):
				t.Errorf("%s: %s is %s by default, ours is %s", class, name, value, ours[name])
			}
		}
		for name := range ours {
			if known[name].word == "" || known[name].word == inert {
				t.Errorf("%s: the default of %s has no effect", class, name)
			}
		}
	}
	for class, a := range architectures {
		if !a.images {
			check(class, join(everyConfig, a.members), a.defaults)
		}
	}
	check("Qwen3_5ForConditionalGeneration", imagesConfig, "{}")
	check("GenerationConfig", generationMembers, "{}")
	check("LoraConfig", adapterMembers, adapterDefaults)
	for component, known := range map[string]members{
		"tokenizer.json": tokenizerMembers, "BPE": modelMembers, "AddedToken": addedMembers, "Split": splitMembers, "Digits": digitMembers,
		"ByteLevel": byteLevel, "ByteLevel after": byteLevelAfter, "ByteLevel decoder": byteLevelAfter, "TemplateProcessing": templating,
	} {
		for name := range classes[component] {
			if known[name].word == "" {
				t.Errorf("%s: %s has no word", component, name)
			}
		}
		if len(classes[component]) == 0 {
			t.Errorf("%s has no members", component)
		}
	}
}

// TestMembersAreThoseOfTheLibraries runs the script that writes the list.
func TestMembersAreThoseOfTheLibraries(t *testing.T) {
	python := os.Getenv(converter)
	if python == "" {
		t.Skipf("no %s; make test-vllm sets it", converter)
	}
	now, err := exec.CommandContext(t.Context(), python, "testdata/members.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile(membersFile); err != nil || !bytes.Equal(now, want) {
		t.Errorf("%s is not what testdata/members.py prints (%v)", membersFile, err)
	}
}

// TestMembersThatChangeResultsAreRefusedByName, in each file.
func TestMembersThatChangeResultsAreRefusedByName(t *testing.T) {
	yarn := func(more checkpointtest.Object) checkpointtest.Object {
		all := checkpointtest.Object{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
		maps.Copy(all, more)
		return all
	}
	const config, generation = "config.json", "generation_config.json"
	for _, tc := range []struct {
		name, fixture, file string
		change              checkpointtest.Object
		want                string // "" where it is accepted
	}{
		{"a member that nobody knows", "qwen3-f16", config, checkpointtest.Object{"logit_scale": 2.0}, "logit_scale is not known"},
		{"null of a member that nobody knows", "qwen3-f16", config, checkpointtest.Object{"logit_scale": nil}, ""},
		{"code of its own", "qwen3-f16", config, checkpointtest.Object{"auto_map": checkpointtest.Object{"AutoModel": "x.Y"}}, "auto_map is"},
		{"another activation", "qwen3-f16", config, checkpointtest.Object{"hidden_act": "gelu"}, `hidden_act is "gelu"; only "silu" is computed`},
		{"biases of Qwen 3", "qwen3-f16", config, checkpointtest.Object{"attention_bias": true}, "attention_bias is true"},
		{"biases of Llama that config.json denies", "llama-f32", config, checkpointtest.Object{"attention_bias": false}, "has no bias"},
		{"biases of Llama that are not there", "llama-bf16", config, checkpointtest.Object{"attention_bias": true}, "blk.0.attn_q.bias"},
		{"another type than the class's", "qwen3-f16", config, checkpointtest.Object{"model_type": "qwen2"}, `model_type is "qwen2"`},
		{"another quantization", "qwen3-f16", config, checkpointtest.Object{"quantization_config": checkpointtest.Object{"_load_in_4bit": true, "quant_method": "bitsandbytes"}}, `quantization_config: quant_method is "bitsandbytes"; only "mxfp4"`},
		{"no epsilon", "qwen3-f16", config, checkpointtest.Object{"rms_norm_eps": 0}, "rms_norm_eps is 0"},
		{"a window in use", "qwen2-bf16", config, checkpointtest.Object{"use_sliding_window": true, "sliding_window": 16, "max_window_layers": 0}, "use_sliding_window"},
		{"a window of no layer", "qwen2-bf16", config, checkpointtest.Object{"use_sliding_window": true, "sliding_window": 16, "max_window_layers": 2}, ""},
		{"a layer with a window", "qwen3-f16", config, checkpointtest.Object{"layer_types": []string{"full_attention", "sliding_attention"}}, "layer_types has"},
		{"windows of GPT-OSS in another order", "gptoss-bf16", config, checkpointtest.Object{"layer_types": []string{"full_attention", "sliding_attention"}}, ""},
		{"experts whose weights are not normalized", "qwen3moe-bf16", config, checkpointtest.Object{"norm_topk_prob": false}, "norm_topk_prob is false; only true"},
		{"dense layers among experts", "qwen3moe-bf16", config, checkpointtest.Object{"mlp_only_layers": []int{0}}, "mlp_only_layers is [0]"},
		{"another bound of GPT-OSS' gates", "gptoss-bf16", config, checkpointtest.Object{"swiglu_limit": 6.0}, "swiglu_limit is 6"},
		{"dynamic positions", "qwen3-f16", config, checkpointtest.Object{"rope_scaling": checkpointtest.Object{"type": "dynamic", "factor": 2.0}}, `rope_scaling: rope_type "dynamic"`},
		{"a member of another type of positions", "qwen3-f16", config, checkpointtest.Object{"rope_scaling": yarn(checkpointtest.Object{"short_factor": []int{1}})}, "rope_scaling: short_factor is not known"},
		{"YaRN with all that it may have", "qwen3-f16", config, checkpointtest.Object{"rope_scaling": yarn(checkpointtest.Object{"attention_factor": 1.3, "beta_fast": 16, "beta_slow": 2, "truncate": false, "mscale": 1, "mscale_all_dim": 1})}, ""},
		{"parameters that differ by the kind of layer", "gptoss-bf16", config, checkpointtest.Object{"rope_parameters": checkpointtest.Object{"full_attention": yarn(nil), "sliding_attention": checkpointtest.Object{"rope_type": "default"}}}, "sliding_attention has other parameters"},
		{"beams", "qwen3-f16", generation, checkpointtest.Object{"num_beams": 4}, "generation_config.json: num_beams is 4; only 1 is computed"},
		{"tokens that may not come", "qwen3-f16", generation, checkpointtest.Object{"suppress_tokens": []int{1}}, "suppress_tokens is [1]"},
		{"seven ends", "qwen3-f16", generation, checkpointtest.Object{"eos_token_id": []int{1, 2, 3, 4, 5, 6, 7}}, "tokens end an answer; at most 6"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := checkpointtest.All()
			f := all[slices.IndexFunc(all, func(f checkpointtest.Fixture) bool { return f.Name == tc.fixture })]
			dir := f.Write(t, t.TempDir())
			change(t, filepath.Join(dir, tc.file), tc.change)
			expect(t, Write(new(bytes.Buffer), dir), tc.want)
		})
	}
}

// TestAbsentMembersAreThoseOfTheClass: transformers does not normalize the weights of experts unless config.json says so.
func TestAbsentMembersAreThoseOfTheClass(t *testing.T) {
	a := architectures["Qwen3MoeForCausalLM"]
	expect(t, a.readMembers([]byte(`{"architectures": ["Qwen3MoeForCausalLM"]}`), new(hyperparameters)), "norm_topk_prob is missing, which means false; only true")
	c := new(config)
	if _, err := c.read([]byte(`{"architectures": ["GptOssForCausalLM"], "rms_norm_eps": 1e-3}`)); err != nil {
		t.Fatal(err)
	}
	if c.Epsilon != 1e-3 || c.Layers != 36 || c.Window != 128 || c.rope.Type != "yarn" || c.Theta != 150000 || c.Original != 4096 {
		t.Errorf("%+v", c)
	}
}

// TestMembersOfAdaptersThatChangeResultsAreRefusedByName tries each kind of member.
func TestMembersOfAdaptersThatChangeResultsAreRefusedByName(t *testing.T) {
	for name, want := range map[string]string{
		`"alora_invocation_tokens": [65]`: "alora_invocation_tokens is [65]", `"use_qalora": true`: "use_qalora is true",
		`"init_lora_weights": "pissa"`: `init_lora_weights is "pissa"`, `"init_lora_weights": "gaussian"`: "", `"lora_bias": true`: "lora_bias is true",
		`"alpha_pattern": {"q_proj": 4}`: "alpha_pattern is", `"alpha_pattern": {}`: "", `"bias": "all"`: "bias is", `"novelty": 1`: "novelty is not known",
		`"target_parameters": ["mlp.experts.gate_up_proj"]`: "target_parameters is", `"loftq_config": {}`: "", `"lora_dropout": 0.1`: "",
		`"lora_alpha": "x"`: "adapter_config.json: lora_alpha has a wrong value: string", `"r": 1.5`: "r has a wrong value: number 1.5",
		`"r": 8`:                     "down_proj.lora_A.weight: its rank is 4, and r or rank_pattern is 8",
		`"r": 8, "use_rslora": true`: "its rank is 4", `"rank_pattern": {"q_proj": 16}`: "q_proj.lora_A.weight: its rank is 4",
		`"r": 8, "rank_pattern": {".*_proj": 4}`: "", `"rank_pattern": {"x_proj": 16, "_proj": 16}`: "",
		`"rank_pattern": {"(?!x)": 16}`: "its rank is 4, and r or rank_pattern is 16",
	} {
		dir := t.TempDir()
		checkpointtest.WriteAdapter(t, dir)
		checkpointtest.Write(t, dir, map[string]any{"adapter_config.json": `{"peft_type": "LORA", "r": 4, ` + name + `}`})
		expect(t, WriteAdapter(new(bytes.Buffer), dir, Base{"llama", 4, 2}), want)
	}
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// change sets members of a JSON file.
func change(t *testing.T, path string, to checkpointtest.Object) {
	t.Helper()
	all := checkpointtest.Object{}
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &all) != nil {
		t.Fatal(err)
	}
	maps.Copy(all, to)
	checkpointtest.Write(t, filepath.Dir(path), map[string]any{filepath.Base(path): all})
}

// TestSameCheckpointGivesTheSameBytes, whose hash is the model's version.
func TestSameCheckpointGivesTheSameBytes(t *testing.T) {
	for i, c := range checkpointtest.All() {
		dir := c.Write(t, t.TempDir())
		change(t, filepath.Join(dir, generationFile), checkpointtest.Object{"temperature": 0.31, "top_p": 0.8, "top_k": 7, "min_p": 0.05, "repetition_penalty": 1.1})
		for _, write := range []func(io.Writer, string) error{Write, WriteVocabulary} {
			files := map[string]bool{}
			for range 8 {
				var b bytes.Buffer
				if err := write(&b, dir); err != nil {
					t.Fatal(err)
				}
				files[b.String()] = true
			}
			if len(files) > 1 {
				t.Errorf("checkpoint %d: %d different files", i, len(files))
			}
		}
	}
}

// TestOutputInTheFilesIsUsed also with tie_word_embeddings: transformers ties it to the embeddings only if it is equal.
func TestOutputInTheFilesIsUsed(t *testing.T) {
	f := checkpointtest.All()[2]
	dir := f.Write(t, t.TempDir())
	var untied, tied bytes.Buffer
	first := Write(&untied, dir)
	change(t, filepath.Join(dir, "config.json"), checkpointtest.Object{"tie_word_embeddings": true})
	if err := errors.Join(first, Write(&tied, dir)); err != nil || !bytes.Equal(untied.Bytes(), tied.Bytes()) {
		t.Errorf("%s: tied, the file has %d bytes, want %d of the same (%v)", f.Name, tied.Len(), untied.Len(), err)
	}
	read, err := openTensors(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer read.close()
	head, embeddings := read.byName["lm_head.weight"], read.byName["model.embed_tokens.weight"]
	data := make([]byte, head.shape[0]*head.rowSize())
	_, err = embeddings.file.ReadAt(data, embeddings.offset)
	file, openErr := os.OpenFile(head.file.Name(), os.O_WRONLY, 0)
	if err := errors.Join(err, openErr); err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, err = file.WriteAt(data, head.offset)
	var equal bytes.Buffer
	if err := errors.Join(err, Write(&equal, dir)); err != nil || untied.Len()-equal.Len() < len(data) {
		t.Errorf("equal, the file has %d bytes of %d, want %d fewer (%v)", equal.Len(), untied.Len(), len(data), err)
	}
}

// TestTiedHeadAloneIsTheEmbeddings: of two names of one tensor, safetensors' save_model keeps the first.
func TestTiedHeadAloneIsTheEmbeddings(t *testing.T) {
	f := checkpointtest.All()[0]
	dir := f.Write(t, t.TempDir())
	var usual, renamed bytes.Buffer
	err := Write(&usual, dir)
	path := filepath.Join(dir, singleFile)
	data, readErr := os.ReadFile(path)
	data = bytes.Replace(data, []byte(`"model.embed_tokens.weight"`), []byte(`"lm_head.weight"           `), 1)
	err = errors.Join(err, readErr, os.WriteFile(path, data, 0o600), Write(&renamed, dir))
	if err != nil || !bytes.Equal(usual.Bytes(), renamed.Bytes()) {
		t.Errorf("%s: %d bytes, want %d of the same (%v)", f.Name, renamed.Len(), usual.Len(), err)
	}
}

// TestAddedTokenWithoutAnEmbeddingIsLeftOut, such as one for padding that was added without resizing the embeddings.
func TestAddedTokenWithoutAnEmbeddingIsLeftOut(t *testing.T) {
	dir := checkpointtest.All()[0].Write(t, t.TempDir())
	var added []checkpointtest.Object
	for id := 261; id <= checkpointtest.Vocab; id++ {
		added = append(added, checkpointtest.Object{"id": id, "content": fmt.Sprintf("<%d>", id)})
	}
	change(t, filepath.Join(dir, "tokenizer.json"), checkpointtest.Object{"added_tokens": added})
	change(t, filepath.Join(dir, vocabularyConfig), checkpointtest.Object{"pad_token": "<264>"})
	f, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := llama.New(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	if got := string(m.Vocab().Piece(263, true)); got != "<263>" || m.Vocab().Size() != checkpointtest.Vocab {
		t.Errorf("%d tokens, the last one %q", m.Vocab().Size(), got)
	}
}

// TestSamplingOfACheckpointIsInItsFiles, the model's and the vocabulary's, which serves engines at URLs.
func TestSamplingOfACheckpointIsInItsFiles(t *testing.T) {
	all := checkpointtest.All()
	dir := all[0].Write(t, t.TempDir())
	change(t, filepath.Join(dir, generationFile), checkpointtest.Object{"temperature": 0.31, "top_p": 0.8, "top_k": 7, "min_p": 0.05, "repetition_penalty": 1.1})
	for what, write := range map[string]func(io.Writer, string) error{"model": Write, "vocabulary": WriteVocabulary} {
		path := filepath.Join(t.TempDir(), "file.gguf")
		var b bytes.Buffer
		if err := errors.Join(write(&b, dir), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		m, err := llama.New(path, llama.SetVocabOnly(true))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		for name, want := range map[string]float32{"temp": 0.31, "top_p": 0.8, "top_k": 7, "min_p": 0.05, "penalty_repeat": 1.1} {
			if got := m.SamplingDefault(name); got == nil || *got != want {
				t.Errorf("%s: %s is %v, want %v", what, name, got, want)
			}
		}
	}
}

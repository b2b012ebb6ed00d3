//go:build !race

package checkpoint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/llama"
	"agentd/llama/checkpoint/checkpointtest"
	"agentd/llama/synth"
)

type object = checkpointtest.Object

func convert(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vocab.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := WriteVocabulary(f, dir); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConvertedVocabularyTokenizesAsTheOriginal uses a random-weight model with Qwen's
// vocabulary, written as Hugging Face's files and back.
func TestConvertedVocabularyTokenizesAsTheOriginal(t *testing.T) {
	file, err := synth.VocabFile()
	if err != nil {
		t.Fatal(err)
	}
	original, err := llama.New(file, llama.SetVocabOnly(true))
	if err != nil {
		t.Fatal(err)
	}
	defer original.Free()
	vocab := map[string]int{}
	var added []object
	v := original.Vocab()
	texts, merges := rawVocabulary(t, file)
	for id, text := range texts {
		vocab[text] = id
		if v.IsControl(llama.Token(id)) {
			added = append(added, object{"id": id, "content": text, "special": true})
		}
	}
	dir := t.TempDir()
	checkpointtest.Write(t, dir, map[string]any{
		"tokenizer.json": object{
			"added_tokens": added,
			"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{
				{"type": "Split", "pattern": object{"Regex": checkpointtest.Pattern("qwen2")}, "behavior": "Isolated"},
				{"type": "ByteLevel", "use_regex": false},
			}},
			"model": object{"type": "BPE", "vocab": vocab, "merges": merges},
		},
		"config.json": object{
			"vocab_size": len(texts), "max_position_embeddings": 4096, "bos_token_id": 151643,
		},
		"generation_config.json": object{"eos_token_id": []int{151643, 151645}},
		"tokenizer_config.json":  object{"bos_token": "<|im_start|>", "eos_token": object{"content": "<|im_end|>"}},
		"chat_template.jinja":    "{{ bos_token }}{{ eos_token }}",
	})
	converted, err := llama.New(convert(t, dir), llama.SetVocabOnly(true))
	if err != nil {
		t.Fatal(err)
	}
	defer converted.Free()
	w := converted.Vocab()
	if w.Size() != v.Size() || !w.IsEOG(151645) || !w.IsEOG(151643) || w.AddBOS() {
		t.Errorf("size %d of %d, ends %v and %v, BOS %v", w.Size(), v.Size(), w.IsEOG(151645), w.IsEOG(151643), w.AddBOS())
	}
	template, err := converted.NewTemplate("")
	if err != nil {
		t.Fatal(err)
	}
	defer template.Close()
	const want = "<|im_start|><|im_end|>" // as the library, which has both from tokenizer_config.json
	if got, err := template.Render([]byte("{}"), time.Time{}); got != want || err != nil {
		t.Errorf("the template gives %q, want %q (%v)", got, want, err)
	}
	for _, text := range []string{
		"the robot's arm, 12345!", " \n\n  x\t", "naïve 机器人 🙂 мир", `{"name": "go_to"}`, "<|im_start|>user", "A1b2\r\n\r\nC",
	} {
		for _, special := range []bool{false, true} {
			want, err := v.Tokenize(text, false, special)
			if err != nil {
				t.Fatal(err)
			}
			got, err := w.Tokenize(text, false, special)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: got %v, want %v (%v)", text, got, want, err)
			}
		}
	}
}

// TestPreTokenizersAreKnownAsAWhole, so that a sequence with another part is refused.
func TestPreTokenizersAreKnownAsAWhole(t *testing.T) {
	split := func(regex string) object {
		return object{"type": "Split", "pattern": object{"Regex": regex}, "behavior": "Isolated", "invert": false}
	}
	sequence := func(parts ...object) object { return object{"type": "Sequence", "pretokenizers": parts} }
	bytes, words := object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}, object{"type": "ByteLevel", "use_regex": true}
	digits := object{"type": "Digits", "individual_digits": true}
	for name, tc := range map[string]struct {
		value     object
		pre, want string
	}{
		"Qwen 2.5 and 3":             {sequence(split(checkpointtest.Pattern("qwen2")), bytes), "qwen2", ""},
		"Llama 3":                    {sequence(split(checkpointtest.Pattern("llama-bpe")), bytes), "llama-bpe", ""},
		"Qwen 3.5":                   {sequence(split(checkpointtest.Pattern("qwen35")), bytes), "qwen35", ""},
		"GPT-OSS":                    {sequence(split(checkpointtest.Pattern("gpt-4o")), bytes), "gpt-4o", ""},
		"GPT-2":                      {words, "gpt-2", ""},
		"SmolLM":                     {sequence(digits, words), "smollm", ""},
		"a sequence in a sequence":   {sequence(sequence(digits), words), "smollm", ""},
		"digits and another split":   {sequence(digits, split(`\p{L}+`), words), "", `\\p{L}+`},
		"digits in groups":           {sequence(object{"type": "Digits", "individual_digits": false}, words), "", "individual_digits is false"},
		"a pattern with one part":    {sequence(split(checkpointtest.Pattern("qwen2")+`|x`), bytes), "", "is not known"},
		"a pattern twice":            {sequence(split(checkpointtest.Pattern("qwen2")), split(checkpointtest.Pattern("qwen2")), bytes), "", "the sequence"},
		"a split that removes":       {sequence(object{"type": "Split", "pattern": object{"Regex": checkpointtest.Pattern("qwen2")}, "behavior": "Removed"}, bytes), "", `behavior is "Removed"`},
		"a split, and words again":   {sequence(split(checkpointtest.Pattern("qwen2")), words), "", "the sequence"},
		"a space before each text":   {object{"type": "ByteLevel", "add_prefix_space": true}, "", "add_prefix_space is true"},
		"a member that nobody knows": {object{"type": "ByteLevel", "novelty": 1}, "", "novelty is not known"},
		"words by spaces":            {object{"type": "Metaspace"}, "", "Metaspace"},
		"nothing":                    {nil, "", "the sequence"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(tc.value)
			if err != nil {
				t.Fatal(err)
			}
			got, err := (&tokenizer{Pre: raw}).preTokenizer()
			expect(t, err, tc.want)
			if got != tc.pre {
				t.Errorf("got %q, want %q", got, tc.pre)
			}
		})
	}
}

func TestUnusableDirectoriesAreRefused(t *testing.T) {
	good := func() map[string]any {
		return map[string]any{
			"tokenizer.json": object{"pre_tokenizer": object{"type": "ByteLevel"}, "model": object{"type": "BPE", "vocab": object{"a": 0, "b": 1, "ab": 2}, "merges": []string{"a b"}}},
			"config.json":    object{"vocab_size": 3, "max_position_embeddings": 128, "eos_token_id": 1},
		}
	}
	for want, change := range map[string]func(map[string]any){
		"no such file":        func(f map[string]any) { delete(f, "tokenizer.json") },
		"only byte-level BPE": func(f map[string]any) { f["tokenizer.json"] = object{"model": object{"type": "Unigram"}} },
		"type is missing":     func(f map[string]any) { f["tokenizer.json"] = object{"model": object{}} },
		"normalizer: {":       func(f map[string]any) { f["tokenizer.json"].(object)["normalizer"] = object{"type": "Lowercase"} },
		"post_processor: {": func(f map[string]any) {
			f["tokenizer.json"].(object)["post_processor"] = object{"type": "RobertaProcessing"}
		},
		"decoder: {": func(f map[string]any) { f["tokenizer.json"].(object)["decoder"] = object{"type": "WordPiece"} },
		`"ab" is not in the vocab`: func(f map[string]any) {
			f["tokenizer.json"].(object)["model"].(object)["vocab"] = object{"a": 0, "b": 1}
		},
		`"" is not in the vocabul`: func(f map[string]any) { f["tokenizer.json"].(object)["model"].(object)["merges"] = []string{"a "} },
		`"a" and "c" have the id 0`: func(f map[string]any) {
			f["tokenizer.json"].(object)["model"].(object)["vocab"] = object{"a": 0, "b": 1, "ab": 2, "c": 0}
		},
		`"<x>" has id 1, and the library gives it 3`: func(f map[string]any) {
			f["tokenizer.json"].(object)["added_tokens"] = []object{{"id": 1, "content": "<x>"}}
		},
		`"a" has id 3, and the library gives it 0`: func(f map[string]any) {
			f["tokenizer.json"].(object)["added_tokens"] = []object{{"id": 3, "content": "a"}}
		},
		"novelty is not known": func(f map[string]any) { f["tokenizer.json"].(object)["novelty"] = 1 },
		"dropout is 0.1":       func(f map[string]any) { f["tokenizer.json"].(object)["model"].(object)["dropout"] = 0.1 },
		"[CUBE]": func(f map[string]any) {
			f["tokenizer.json"].(object)["added_tokens"] = []object{{"id": 3, "content": "[CUBE]", "lstrip": true}}
		},
		`pad_token names the token "<pad>"`: func(f map[string]any) { f["tokenizer_config.json"] = object{"pad_token": "<pad>", "bos_token": "a"} },
		`additional_special_tokens names the token "<x>"`: func(f map[string]any) {
			f["tokenizer_config.json"] = object{"additional_special_tokens": []any{"a", object{"content": "<x>"}}}
		},
		`added_tokens_decoder names the token "<y>"`: func(f map[string]any) {
			f["tokenizer_config.json"] = object{"added_tokens_decoder": object{"0": object{"content": "a"}, "7": object{"content": "<y>"}}}
		},
		"add_bos_token is true, and":     func(f map[string]any) { f["tokenizer_config.json"] = object{"add_bos_token": true} },
		"novelty_of_config is not known": func(f map[string]any) { f["tokenizer_config.json"] = object{"novelty_of_config": 1} },
		"the library gives it 3": func(f map[string]any) {
			f["tokenizer.json"].(object)["added_tokens"] = []object{{"id": 5, "content": "[CUBE]"}}
		},
		"Metaspace":            func(f map[string]any) { f["tokenizer.json"].(object)["pre_tokenizer"] = object{"type": "Metaspace"} },
		"names eos_token_id":   func(f map[string]any) { f["config.json"] = object{"vocab_size": 3} },
		"eos_token_id is [-1]": func(f map[string]any) { f["config.json"].(object)["eos_token_id"] = []int{-1} },
		"merge 0 is neither":   func(f map[string]any) { f["tokenizer.json"].(object)["model"].(object)["merges"] = []int{1} },
		"has id -1":            func(f map[string]any) { f["tokenizer.json"].(object)["model"].(object)["vocab"] = object{"a": -1} },
		"it has a size of":     func(f map[string]any) { f["config.json"].(object)["vocab_size"] = 1 << 30 },
		"invalid character":    func(f map[string]any) { f["config.json"] = "nonsense" },
	} {
		t.Run(want, func(t *testing.T) {
			dir, files := t.TempDir(), good()
			change(files)
			checkpointtest.Write(t, dir, files)
			if err := WriteVocabulary(&strings.Builder{}, dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// rawVocabulary reads texts and merges of a GGUF file, which llama.cpp's API does not give.
func rawVocabulary(t *testing.T, path string) (texts, merges []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return arrayOf(t, data, "tokenizer.ggml.tokens"), arrayOf(t, data, "tokenizer.ggml.merges")
}

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"agentd/llama/internal/gguf"
)

const generationFile = "generation_config.json"

// generationMembers are the members of generation_config.json. What else changes how transformers decodes is refused.
var generationMembers = join(
	use("eos_token_id", "temperature", "top_k", "top_p", "min_p", "repetition_penalty"),
	ignore("agentd's own settings say it", "do_sample", "max_length", "max_new_tokens", "min_length", "min_new_tokens", "max_time",
		"num_return_sequences", "stop_strings", "cache_implementation", "cache_config", "max_cache_len", "use_cache", "prefill_chunk_size",
		"chat_format", "max_window_size"),
	ignore("prompts name their tokens, and nothing is padded", "bos_token_id", "pad_token_id", "decoder_start_token_id"),
	ignore("a note of who wrote the file", "transformers_version", "_from_model_config"),
	ignore(noForm, "output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate",
		"remove_invalid_values", "renormalize_logits", "low_memory", "compile_config", "disable_compile", "continuous_batching_config"),
	ignore("speculative tokens leave the distribution as it is", "is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule",
		"assistant_confidence_threshold", "prompt_lookup_num_tokens", "max_matching_ngram_size", "assistant_early_exit",
		"assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight", "speculation_type", "use_mtp"),
	only("1", noSampler, "num_beams", "num_beam_groups", "length_penalty", "typical_p", "encoder_repetition_penalty", "guidance_scale"),
	only("0", noSampler, "epsilon_cutoff", "eta_cutoff", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "diversity_penalty", "penalty_alpha"),
	only("false", noSampler, "early_stopping", "token_healing"),
	only("", noSampler, "bad_words_ids", "force_words_ids", "constraints", "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens",
		"begin_suppress_tokens", "sequence_bias", "exponential_decay_length_penalty", "watermarking_config", "dola_layers", "top_h"),
)

const noSampler = "agentd has no such sampler; remove it to sample without"

// generation is what is read of generation_config.json.
type generation struct {
	EOS         json.RawMessage `json:"eos_token_id"`
	Temperature *float64        `json:"temperature"`
	TopK        *float64        `json:"top_k"`
	TopP        *float64        `json:"top_p"`
	MinP        *float64        `json:"min_p"`
	Repetition  *float64        `json:"repetition_penalty"`
}

// readGeneration is empty where there is no file.
func readGeneration(dir string) (g generation, err error) {
	text, err := readFile(dir, generationFile)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err == nil {
		err = generationMembers.read(text, nil, &g)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", filepath.Join(dir, generationFile), err)
	}
	return g, err
}

// writeSampling writes the sampling parameters of generation_config.json as llama.cpp's converter does.
func writeSampling(m *gguf.Metadata, dir string) error {
	g, err := readGeneration(dir)
	if err != nil {
		return err
	}
	for key, value := range map[string]*float64{"temp": g.Temperature, "top_p": g.TopP, "min_p": g.MinP, "penalty_repeat": g.Repetition} {
		if value != nil {
			m.Set("general.sampling."+key, *value)
		}
	}
	if g.TopK != nil {
		m.Set("general.sampling.top_k", int(*g.TopK))
	}
	return nil
}

// endKeys are the keys of a GGUF file whose tokens llama.cpp takes for ends of an answer.
var endKeys = []string{
	"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
	"tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id",
}

// endTokens are the ids that end an answer, the main one first: eos_token_id of generation_config.json, or else of
// config.json, and eos_token of tokenizer_config.json.
func (t *tokenizer) endTokens(dir string) ([]int, error) {
	g, err := readGeneration(dir)
	if err != nil {
		return nil, err
	}
	name, raw := generationFile, g.EOS
	if isNull(raw) {
		if name, raw, err = configEnds(dir); err != nil {
			return nil, err
		}
	}
	list, err := ids(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	if end, ok, err := t.endOfTokenizer(dir); err != nil {
		return nil, err
	} else if ok && !slices.Contains(list, end) {
		list = append(list, end)
	}
	switch {
	case len(list) == 0:
		return nil, fmt.Errorf("%s: no file names eos_token_id", dir)
	case len(list) > len(endKeys):
		return nil, fmt.Errorf("%s: %d tokens end an answer; at most %d may", dir, len(list), len(endKeys))
	}
	return list, nil
}

// configEnds is eos_token_id of config.json, with the name of the file.
func configEnds(dir string) (string, json.RawMessage, error) {
	var c struct {
		EOS  json.RawMessage `json:"eos_token_id"`
		Text struct {
			EOS json.RawMessage `json:"eos_token_id"`
		} `json:"text_config"`
	}
	if err := readJSON(dir, "config.json", &c); err != nil {
		return "", nil, err
	}
	if isNull(c.EOS) {
		c.EOS = c.Text.EOS
	}
	return "config.json", c.EOS, nil
}

// ids reads eos_token_id: an id, a list of them, or nothing.
func ids(raw json.RawMessage) (list []int, err error) {
	if isNull(raw) {
		return nil, nil
	}
	var one int
	if json.Unmarshal(raw, &one) == nil {
		list = []int{one}
	} else if json.Unmarshal(raw, &list) != nil {
		return nil, fmt.Errorf("eos_token_id is %s", raw)
	}
	if slices.ContainsFunc(list, func(id int) bool { return id < 0 }) {
		return nil, fmt.Errorf("eos_token_id is %s", raw)
	}
	return slices.Compact(list), nil
}

// endOfTokenizer is the id of eos_token in tokenizer_config.json: a text, or an object with its content.
func (t *tokenizer) endOfTokenizer(dir string) (id int, ok bool, err error) {
	c, err := readTokenizerConfig(dir)
	if err != nil {
		return 0, false, err
	}
	if isNull(c.EOS) {
		return 0, false, nil
	}
	var text string
	var token struct{ Content string }
	if json.Unmarshal(c.EOS, &text) != nil {
		if err := json.Unmarshal(c.EOS, &token); err != nil {
			return 0, false, fmt.Errorf("%s: eos_token is %s", filepath.Join(dir, vocabularyConfig), c.EOS)
		}
		text = token.Content
	}
	for _, a := range t.added {
		if a.Content == text {
			return a.ID, true, nil
		}
	}
	id, ok = t.model.Vocab[text]
	return id, ok, nil
}

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"agentd/llama/internal/gguf"
)

const generationFile = "generation_config.json"

// generationMembers are the members of generation_config.json. Members that would change how transformers decodes and
// that agentd does not support are refused.
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

// generation has the members of generation_config.json that are used.
type generation struct {
	EOS         json.RawMessage `json:"eos_token_id"`
	Temperature *float64        `json:"temperature"`
	TopK        *float64        `json:"top_k"`
	TopP        *float64        `json:"top_p"`
	MinP        *float64        `json:"min_p"`
	Repetition  *float64        `json:"repetition_penalty"`
}

// readGeneration reads generation_config.json. Without that file the result is empty.
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

// write writes the sampling parameters with the keys of llama.cpp's converter.
func (g *generation) write(m *gguf.Metadata) {
	values := map[string]*float64{"temp": g.Temperature, "top_p": g.TopP, "min_p": g.MinP, "penalty_repeat": g.Repetition}
	for _, key := range slices.Sorted(maps.Keys(values)) { // in one order: the file's hash is the model's version
		if values[key] != nil {
			m.Set("general.sampling."+key, *values[key])
		}
	}
	if g.TopK != nil {
		m.Set("general.sampling.top_k", int32(*g.TopK)) // -1: off
	}
}

// endKeys are the keys of a GGUF file with tokens that llama.cpp treats as end-of-generation tokens.
var endKeys = []string{
	"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
	"tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id",
}

// endTokens returns the ids of the tokens that end an answer: eos_token of tokenizer_config.json, which templates get,
// and eos_token_id of generation_config.json, without that of config.json.
func (t *tokenizer) endTokens(dir string, g *generation, said *tokenizerConfig, c *shape) ([]int, error) {
	name, raw := generationFile, g.EOS
	if isNull(raw) {
		name, raw = "config.json", c.EOS
	}
	list, err := ids(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	if id, ok := t.id(tokenText(said.EOS)); ok {
		list = append([]int{id}, slices.DeleteFunc(list, func(other int) bool { return other == id })...)
	}
	switch {
	case len(list) == 0:
		return nil, fmt.Errorf("%s: no file names eos_token_id", dir)
	case len(list) > len(endKeys):
		return nil, fmt.Errorf("%s: %d tokens end an answer; at most %d may", dir, len(list), len(endKeys))
	}
	return list, nil
}

// ids reads eos_token_id: an id, a list of ids, or null.
func ids(raw json.RawMessage) (list []int, err error) {
	if isNull(raw) {
		return nil, nil
	}
	list = []int{0}
	if json.Unmarshal(raw, &list[0]) != nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil || slices.ContainsFunc(list, func(id int) bool { return id < 0 }) {
		return nil, fmt.Errorf("eos_token_id is %s", raw)
	}
	return slices.Compact(list), nil
}

package checkpoint

// Members of config.json. Each class of transformers has everyConfig's and its own.

const (
	noTraining = "training only"
	noForm     = "how the library runs the model, or what it returns"
	noImages   = "images are not served"
	noOther    = "llama.cpp has no other code for this architecture"
)

var everyConfig = join(
	use("architectures", "bos_token_id", "eos_token_id", "head_dim", "hidden_size", "intermediate_size", "max_position_embeddings",
		"num_attention_heads", "num_hidden_layers", "num_key_value_heads", "original_max_position_embeddings", "quantization_config",
		"rms_norm_eps", "rope_parameters", "rope_scaling", "rope_theta", "tie_word_embeddings", "vocab_size", "model_type"),
	only(`"silu"`, noOther, "hidden_act"),
	only("false", "the model only decodes", "is_encoder_decoder", "is_cross_attention_cls", "add_cross_attention"),
	only("false", noOther, "rope_interleaved", "use_mrope"),
	only("", "the checkpoint has code of its own; give a GGUF file of the model instead", "auto_map"),
	only("", "it moves or rescales weights", "pruned_heads"),
	ignore(noTraining, "attention_dropout", "initializer_range", "router_aux_loss_coef", "output_router_logits"),
	ignore(noForm, "use_cache", "output_hidden_states", "output_attentions", "return_dict", "chunk_size_feed_forward", "problem_type",
		"id2label", "label2id", "torchscript", "pretraining_tp", "_attn_implementation", "_attn_implementation_autoset", "attn_implementation",
		"task_specific_params", "finetuning_task", "tokenizer_class", "experts_implementation", "_experts_implementation"),
	ignore("the tensors say their types", "torch_dtype", "dtype", "use_bfloat16"),
	ignore("a note of who wrote the file", "_name_or_path", "_model_name_or_path", "_commit_hash", "transformers_version", "transformers.js_config", "is_llama_config",
		"unsloth_fixed", "unsloth_version"),
	ignore("nothing is padded", "pad_token_id"),
	ignore("the tokenizer's files say it", "unk_token_id"),
)

var (
	// windows are members of Qwen's classes. A checkpoint that uses a window is refused, see config.windows.
	windows    = use("layer_types", "max_window_layers", "sliding_window", "use_sliding_window")
	noBias     = only("false", noOther, "attention_bias")
	llamaOnly  = use("attention_bias", "mlp_bias")
	mixture    = use("moe_intermediate_size", "num_experts", "num_local_experts", "num_experts_per_tok")
	moeOnly    = join(mixture, only("true", noOther, "norm_topk_prob"), only("1", noOther, "decoder_sparse_step"), only("[]", noOther, "mlp_only_layers"))
	gptOSSOnly = join(use("layer_types", "num_experts", "num_local_experts", "num_experts_per_tok", "sliding_window"),
		only("true", noOther, "attention_bias"), only("7.0", noOther, "swiglu_limit"), only("1.702", noOther, "swiglu_alpha"),
		ignore("num_experts_per_tok and rope_scaling say it", "experts_per_token", "initial_context_length"))
	hybridOnly = join(noBias, use("layer_types", "full_attention_interval", "linear_conv_kernel_dim", "linear_key_head_dim", "linear_num_key_heads",
		"linear_num_value_heads", "linear_value_head_dim", "partial_rotary_factor"),
		only("true", noOther, "attn_output_gate"), only("[]", noOther, "mlp_only_layers"),
		ignore("the state is computed as F32", "mamba_ssm_dtype"),
		ignore("guesses of further tokens are not used", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"))
	// imagesOnly are members beside text_config.
	imagesOnly = join(use("text_config"),
		ignore(noImages, "vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id", "language_model_only"))
	imagesConfig = join(everyConfig, imagesOnly)
)

// Defaults of transformers' configuration classes for absent members of config.json.
const (
	llamaDefaults = `{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
		"num_attention_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
		"attention_bias": false, "mlp_bias": false, "bos_token_id": 1, "eos_token_id": 2}`
	qwen2Defaults = `{"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
		"tie_word_embeddings": false, "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28}`
	qwen3Defaults = `{"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 32768,
		"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "attention_bias": false, "use_sliding_window": false,
		"sliding_window": 4096, "max_window_layers": 28}`
	qwen3MoeDefaults = `{"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
		"num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
		"tie_word_embeddings": false, "attention_bias": false, "use_sliding_window": false, "sliding_window": 4096,
		"decoder_sparse_step": 1, "moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_local_experts": 128,
		"norm_topk_prob": false, "mlp_only_layers": []}`
	gptOSSDefaults = `{"vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
		"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128,
		"max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "num_local_experts": 128,
		"num_experts_per_tok": 4, "attention_bias": true, "swiglu_alpha": 1.702, "swiglu_limit": 7.0, "rope_theta": 150000.0,
		"rope_parameters": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
		"original_max_position_embeddings": 4096}}`
	hybridDefaults = `{"vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 32,
		"num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 32768,
		"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "attention_bias": false, "linear_conv_kernel_dim": 4,
		"linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
		"partial_rotary_factor": 0.25, "full_attention_interval": 4}`
)

// ropeMembers are the members of rope_parameters and rope_scaling by rope_type; "" has the members of all types.
var ropeMembers = map[string]members{
	"":        use("rope_type", "type", "rope_theta", "partial_rotary_factor"),
	"default": join(use("mrope_section"), only("true", noOther, "mrope_interleaved")),
	"linear":  use("factor"),
	"llama3":  use("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
	"yarn": use("factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "truncate",
		"mscale", "mscale_all_dim"),
}

var quantizationMembers = join(only(`"mxfp4"`, "give a GGUF file of the model instead", "quant_method"),
	ignore("the tensors say which are MXFP4", "modules_to_not_convert"))

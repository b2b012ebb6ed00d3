"""Writes checkpoints with random weights, one for each configuration that changes numbers, and what transformers computes.

usage: computed.py DIR

DIR/NAME/ is a checkpoint without a tokenizer. DIR/NAME.json has the ids of a prompt, and the log-probabilities after its last
tokens, in F32.
"""

import json
import os
import sys

import torch
from transformers import AutoModelForCausalLM, GptOssConfig, LlamaConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig

VOCABULARY, PROMPT, LAST = 264, 300, 40
COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "eos_token_id": 256,
    "bos_token_id": 257,
}
EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 4}


def yarn(**more):
    return {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64, **more}


def gpt_oss(head, **more):
    return GptOssConfig(
        **COMMON, **EXPERTS, **{"head_dim": head, "sliding_window": 32, "rope_parameters": yarn(), **more}
    )


def qwen3(**more):
    return Qwen3Config(**COMMON, head_dim=32, **more)


LINEAR = {
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
MODELS = {
    "llama, llama3": LlamaConfig(
        **COMMON,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 1e4,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ),
    "llama, biases": LlamaConfig(**COMMON, attention_bias=True, mlp_bias=True),
    "llama, linear": LlamaConfig(**COMMON, rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0}),
    "qwen2": Qwen2Config(**COMMON, rms_norm_eps=1e-3),
    "qwen2, tied": Qwen2Config(**COMMON, tie_word_embeddings=True),
    "qwen3": qwen3(),
    "qwen3, yarn": qwen3(rope_parameters=yarn()),
    "qwen3, yarn, attention_factor": qwen3(rope_parameters=yarn(attention_factor=1.3)),
    "qwen3, yarn, betas": qwen3(rope_parameters=yarn(beta_fast=16, beta_slow=2)),
    "qwen3, yarn, not rounded": qwen3(rope_parameters=yarn(truncate=False)),
    "qwen3, yarn, mscale": qwen3(rope_parameters=yarn(mscale=0.707, mscale_all_dim=1.2)),
    "qwen3, yarn, no original length": qwen3(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}),
    "qwen3moe": Qwen3MoeConfig(**COMMON, **EXPERTS, head_dim=32, moe_intermediate_size=32, norm_topk_prob=True),
    "gpt-oss": gpt_oss(32, rope_parameters=yarn(truncate=False)),
    "gpt-oss, head 64": gpt_oss(64, rope_parameters=yarn(truncate=False)),
    "gpt-oss, rounded": gpt_oss(32),
    "gpt-oss, no yarn": gpt_oss(32, rope_parameters={"rope_type": "default", "rope_theta": 1e4}),
    "gpt-oss, other windows": gpt_oss(32, layer_types=["full_attention", "sliding_attention", "sliding_attention"]),
    "qwen35": Qwen3_5TextConfig(
        **COMMON, **LINEAR, head_dim=32, layer_types=["linear_attention", "full_attention", "linear_attention"]
    ),
}

parent = sys.argv[1]
for number, (name, config) in enumerate(MODELS.items()):
    torch.manual_seed(number)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for tensor in model.parameters():  # norms and biases too, which begin as ones and zeros
            tensor.add_(torch.randn_like(tensor) * 0.1)
    model.save_pretrained(os.path.join(parent, name))
    prompt = torch.randint(0, 256, (1, PROMPT))
    with torch.no_grad():
        scores = torch.log_softmax(model.eval()(prompt).logits[0, -LAST:].float(), -1)
    with open(os.path.join(parent, name + ".json"), "w") as f:
        json.dump({"prompt": prompt[0].tolist(), "scores": scores.tolist()}, f)

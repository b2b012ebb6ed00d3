"""Writes a GGUF file of a Qwen 2 as a checkpoint that vLLM loads. Quantized weights become BF16.

It runs with vLLM's Python: third_party/vllm.sh --converter.
"""

import argparse
import json
import os
import re

import gguf
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer

# Names of GGUF and of transformers' Qwen 2.
NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def renamed(name: str) -> str:
    if m := re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name):
        return f"model.layers.{m[1]}.{LAYER[m[2]]}.{m[3]}"
    return f"{NAMES[name.removesuffix('.weight')]}.weight"


def config(reader: gguf.GGUFReader, vocabulary: int, tied: bool) -> dict:
    def field(name: str):
        return reader.fields[name].contents()

    width, heads = field("qwen2.embedding_length"), field("qwen2.attention.head_count")
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": field("qwen2.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": field("qwen2.attention.head_count_kv"),
        "head_dim": width // heads,
        "intermediate_size": field("qwen2.feed_forward_length"),
        "rope_theta": field("qwen2.rope.freq_base"),
        "rms_norm_eps": field("qwen2.attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": field("qwen2.context_length"),
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        "eos_token_id": field("tokenizer.ggml.eos_token_id"),
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", help="GGUF file")
    p.add_argument("directory", help="where the checkpoint is written")
    a = p.parse_args()
    reader = gguf.GGUFReader(a.file)
    weights = {
        renamed(t.name): torch.tensor(gguf.dequantize(t.data, t.tensor_type)).to(torch.bfloat16) for t in reader.tensors
    }
    os.makedirs(a.directory, exist_ok=True)
    shape = config(reader, len(weights["model.embed_tokens.weight"]), "lm_head.weight" not in weights)
    with open(os.path.join(a.directory, "config.json"), "w") as f:
        json.dump(shape, f, indent=1)
    folder, name = os.path.split(os.path.abspath(a.file))
    AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(a.directory)
    save_file(weights, os.path.join(a.directory, "model.safetensors"), metadata={"format": "pt"})


if __name__ == "__main__":
    main()

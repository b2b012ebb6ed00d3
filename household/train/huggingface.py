"""Converts a GGUF file of a Qwen 3, with experts or without, of export.py or agentd make-model, into a directory that Hugging Face's libraries and
vLLM load."""

import argparse
import json
import os
import re

import gguf
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken

import restore
import tokenizer as tok
from export import TEMPLATE

# Names of GGUF and of transformers' Qwen 3. Embeddings are tied, so there is no output matrix.
NAMES = {"token_embd": "embed_tokens", "output_norm": "norm"}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
}


def renamed(name: str) -> str:
    if m := re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name):
        return f"model.layers.{m[1]}.{LAYER[m[2]]}.weight"
    return f"model.{NAMES[name.removesuffix('.weight')]}.weight"


def experts(reader: gguf.GGUFReader) -> dict:
    """What config.json says of a mixture of experts; {} without one."""
    if restore.value(reader, "general.architecture") != "qwen3moe":
        return {}
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "num_experts": restore.value(reader, "qwen3moe.expert_count"),
        "num_experts_per_tok": restore.value(reader, "qwen3moe.expert_used_count"),
        "moe_intermediate_size": restore.value(reader, "qwen3moe.expert_feed_forward_length"),
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def stored(t: gguf.ReaderTensor, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The tensors of transformers that one of the file becomes: one for each expert."""
    values = torch.tensor(gguf.dequantize(t.data, t.tensor_type)).to(dtype)
    if m := re.fullmatch(r"blk\.(\d+)\.ffn_(\w+)_exps\.weight", t.name):
        return {f"model.layers.{m[1]}.mlp.experts.{i}.{m[2]}_proj.weight": v.contiguous() for i, v in enumerate(values)}
    return {renamed(t.name): values}


def write(reader: gguf.GGUFReader, directory: str) -> None:
    os.makedirs(directory, exist_ok=True)
    s, tokenizer = restore.shape(reader), restore.tokenizer(reader)
    embedding = next(t for t in reader.tensors if t.name == "token_embd.weight")
    # F32 holds the values of all other types
    dtype = torch.bfloat16 if embedding.tensor_type == gguf.GGMLQuantizationType.BF16 else torch.float32
    vocabulary = json.loads(tokenizer.to_str())["model"]["vocab"]
    end, padding = vocabulary["<|im_end|>"], vocabulary["<|endoftext|>"]
    with open(TEMPLATE) as f:
        template = f.read()
    files = {
        "config.json": {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": s.vocabulary,
            "hidden_size": s.width,
            "num_hidden_layers": s.layers,
            "num_attention_heads": s.heads,
            "num_key_value_heads": s.kv_heads,
            "head_dim": s.head_dim,
            "intermediate_size": s.ffn,
            "rope_theta": s.theta,
            "rms_norm_eps": s.epsilon,
            "max_position_embeddings": s.context,
            "hidden_act": "silu",
            "attention_bias": False,
            "tie_word_embeddings": True,
            "torch_dtype": str(dtype).removeprefix("torch."),
            "bos_token_id": padding,
            "eos_token_id": end,
            "pad_token_id": padding,
        }
        | experts(reader),
        "generation_config.json": {"eos_token_id": [end, padding], "pad_token_id": padding},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": s.context,
            "chat_template": template,
            "clean_up_tokenization_spaces": False,
        },
    }
    for name, value in files.items():
        with open(os.path.join(directory, name), "w") as f:
            json.dump(value, f, indent=1, ensure_ascii=False)
            f.write("\n")
    for text, kind in tok.SPECIALS.items():
        tokenizer.add_tokens([AddedToken(text, special=kind == "control", normalized=False)])
    tokenizer.save(os.path.join(directory, "tokenizer.json"))
    weights = {name: v for t in reader.tensors for name, v in stored(t, dtype).items()}
    save_file(weights, os.path.join(directory, "model.safetensors"), metadata={"format": "pt"})


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("file", help="GGUF file")
    p.add_argument("directory", help="where the model is written")
    args = p.parse_args()
    write(gguf.GGUFReader(args.file), args.directory)


if __name__ == "__main__":
    main()

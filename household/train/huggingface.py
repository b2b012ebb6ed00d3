"""Converts a GGUF file of export.py into a directory that Hugging Face's libraries and vLLM load."""

import argparse
import json
import os

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken

import tokenizer as tok
from export import TEMPLATE
from model import Qwen3
from restore import read


@torch.no_grad()
def tensors(model: Qwen3) -> dict[str, torch.Tensor]:
    """The weights under the names of transformers' Qwen 3. Embeddings are tied, so there is no output matrix."""
    out = {"model.embed_tokens.weight": model.embedding, "model.norm.weight": model.norm.weight}
    for i, b in enumerate(model.blocks):
        out |= {
            f"model.layers.{i}.{name}.weight": module.weight
            for name, module in {
                "input_layernorm": b.attn_norm,
                "self_attn.q_proj": b.attn.q,
                "self_attn.k_proj": b.attn.k,
                "self_attn.v_proj": b.attn.v,
                "self_attn.q_norm": b.attn.q_norm,
                "self_attn.k_norm": b.attn.k_norm,
                "self_attn.o_proj": b.attn.out,
                "post_attention_layernorm": b.ffn_norm,
                "mlp.gate_proj": b.gate,
                "mlp.up_proj": b.up,
                "mlp.down_proj": b.down,
            }.items()
        }
    return {name: t.detach().float().contiguous() for name, t in out.items()}


def write(model: Qwen3, tokenizer: tok.Tokenizer, directory: str) -> None:
    os.makedirs(directory, exist_ok=True)
    s = model.shape
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
            "torch_dtype": "float32",
            "bos_token_id": padding,
            "eos_token_id": end,
            "pad_token_id": padding,
        },
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
    save_file(tensors(model), os.path.join(directory, "model.safetensors"), metadata={"format": "pt"})


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("file", help="GGUF file")
    p.add_argument("directory", help="where the model is written")
    args = p.parse_args()
    model, tokenizer = read(args.file)
    write(model, tokenizer, args.directory)


if __name__ == "__main__":
    main()

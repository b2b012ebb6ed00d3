"""Writes a small Qwen 3 with random weights and a published tokenizer, and a LoRA adapter of it as PEFT does.

usage: qwen.py TOKENIZER_DIRECTORY DIRECTORY [ADAPTER_DIRECTORY]
"""

import json
import os
import shutil
import sys

import torch
from safetensors.torch import save_file
from transformers import Qwen3Config, Qwen3ForCausalLM

tokenizer, directory, *adapters = sys.argv[1:]
torch.manual_seed(1)
config = Qwen3Config(
    vocab_size=151936,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    max_position_embeddings=8192,
    tie_word_embeddings=True,
    bos_token_id=151643,
    eos_token_id=151645,
)
model = Qwen3ForCausalLM(config)
sampling = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [151645, 151643]}
for name, value in sampling.items():
    setattr(model.generation_config, name, value)
model.save_pretrained(directory)
for name in os.listdir(tokenizer):
    shutil.copy(os.path.join(tokenizer, name), directory)
for adapter in adapters:
    os.mkdir(adapter)
    lora = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"]}
    with open(os.path.join(adapter, "adapter_config.json"), "w") as f:
        json.dump(lora, f)
    matrices = {}
    for name, weight in model.named_parameters():
        if name.split(".")[-2] in lora["target_modules"]:
            module = "base_model.model." + name.removesuffix(".weight")
            matrices[module + ".lora_A.weight"] = torch.randn(lora["r"], weight.shape[1])
            matrices[module + ".lora_B.weight"] = torch.randn(weight.shape[0], lora["r"])
    save_file(matrices, os.path.join(adapter, "adapter_model.safetensors"))

"""Writes a small Qwen 3 with random weights and a published tokenizer.

usage: qwen.py TOKENIZER_DIRECTORY DIRECTORY
"""

import os
import shutil
import sys

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

tokenizer, directory = sys.argv[1:]
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

"""Writes the model of a GGUF file as a checkpoint in F32, and the tokens that the library tokenizers makes of texts.

usage: published.py FILE.gguf PRE_TOKENIZER DIR TEXTS.json TOKENS.json

The pre-tokenizer need not be the file's own. Its name is llama.cpp's.
"""

import json
import os
import sys

import gguf
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PATTERNS = {  # as the tokenizer.json of Llama 3, Qwen 2.5 and 3, Qwen 3.5 and GPT-OSS have them
    "llama-bpe": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES,
    "qwen2": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES,
    "qwen35": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + SPACES,
    "gpt-4o": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES,
}


def cuts(pre):
    if pre == "smollm":
        return [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return [
        pre_tokenizers.Split(Regex(PATTERNS[pre]), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]


path, pre, directory, texts, tokens = sys.argv[1:]
fields = gguf.GGUFReader(path).fields


def value(name):
    return fields["tokenizer.ggml." + name].contents()


config = AutoConfig.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path))
if "qwen3.attention.key_length" in fields:  # which transformers does not read
    config.head_dim = fields["qwen3.attention.key_length"].contents()
model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
weights = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
missing = model.load_state_dict(weights, strict=False)
assert missing.missing_keys in ([], ["lm_head.weight"]) and not missing.unexpected_keys, missing
model.tie_weights()
model.generation_config.eos_token_id = value("eos_token_id")
model.save_pretrained(directory)

pieces = value("tokens")
tokenizer = Tokenizer(
    models.BPE(
        {text: i for i, text in enumerate(pieces)},
        [tuple(merge.split(" ")) for merge in value("merges")],
        ignore_merges=pre == "llama-bpe",
    )
)
tokenizer.pre_tokenizer = pre_tokenizers.Sequence(cuts(pre))
tokenizer.decoder = decoders.ByteLevel()
for text, kind in zip(pieces, value("token_type")):
    if kind in (gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED):
        tokenizer.add_tokens([AddedToken(text, special=kind == gguf.TokenType.CONTROL, normalized=False)])
tokenizer.save(directory + "/tokenizer.json")
with open(directory + "/tokenizer_config.json", "w") as f:
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": pieces[value("eos_token_id")]}, f)

with open(texts) as f:
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in json.load(f)]
with open(tokens, "w") as f:
    json.dump(ids, f)

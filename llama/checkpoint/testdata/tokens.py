"""Prints the tokens that the library tokenizers makes of texts, without and with special tokens.

usage: tokens.py DIR <TEXTS.json

DIR has tokenizer.json, or a file of tiktoken, as Qwen 3.5 publishes it: then tokenizer.json is made of it first.
"""

import glob
import json
import os
import sys

from tokenizers import AddedToken, Tokenizer, normalizers
from transformers.convert_slow_tokenizer import TikTokenConverter

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

directory = sys.argv[1]
path = os.path.join(directory, "tokenizer.json")
if not os.path.exists(path):
    file = glob.glob(directory + "/*.tiktoken")[0]
    tokenizer = TikTokenConverter(vocab_file=file, pattern=PATTERN).converted()
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens(
        [AddedToken(text, normalized=False, special=True) for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    )
    tokenizer.save(path)
tokenizer = Tokenizer.from_file(path)
tokenizer.no_truncation()
texts = json.load(sys.stdin)
json.dump([tokenizer.encode(text, add_special_tokens=False).ids for text in texts], sys.stdout)

"""Writes a checkpoint, or an adapter of one, as llama.cpp's own converter does.

usage: reference.py LLAMA_CPP PRE_TOKENIZER DIR OUT.gguf [BASE]

PRE_TOKENIZER is what the converter would find by a hash of known tokenizers. With BASE, DIR is an adapter.
"""

import runpy
import sys

source, pre, directory, out, *base = sys.argv[1:]
sys.path[:0] = [source, source + "/gguf-py"]

if base:
    sys.argv = ["", directory, "--base", base[0], "--outfile", out, "--outtype", "f32"]
    runpy.run_path(source + "/convert_lora_to_gguf.py", run_name="__main__")
else:
    from conversion.base import TextModel

    TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
    sys.argv = ["", directory, "--outfile", out, "--outtype", directory.rsplit("-", 1)[1]]
    with open(directory + "/config.json") as f:
        if "qwen3_5" in f.read():
            sys.argv.append("--no-mtp")
    runpy.run_path(source + "/convert_hf_to_gguf.py", run_name="__main__")

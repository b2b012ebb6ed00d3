"""Converts a GGUF file of export.py into a checkpoint and a tokenizer, for `train.py --weights`."""

import argparse
import csv
import json
import os

import gguf
import numpy as np
import torch

import tokenizer as tok
from export import tensors
from model import Qwen3, Shape

READABLE = {gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16}


def value(reader: gguf.GGUFReader, name: str):
    """The value of a key."""
    if name not in reader.fields:
        raise SystemExit(f"the file has no {name}: only files of export.py and of agentd make-model can be read")
    return reader.fields[name].contents()


def shape(reader: gguf.GGUFReader) -> Shape:
    """The shape of the file's model, a Qwen 3, with experts or without."""

    def single(name: str) -> float:
        """The shortest number that rounds to the file's 32-bit value: 1e-6, not 9.99999997e-7."""
        return float(str(np.float32(value(reader, name))))

    arch = value(reader, "general.architecture")
    return Shape(
        vocabulary=len(value(reader, "tokenizer.ggml.tokens")),
        width=value(reader, f"{arch}.embedding_length"),
        layers=value(reader, f"{arch}.block_count"),
        heads=value(reader, f"{arch}.attention.head_count"),
        kv_heads=value(reader, f"{arch}.attention.head_count_kv"),
        head_dim=value(reader, f"{arch}.attention.key_length"),
        ffn=value(reader, f"{arch}.feed_forward_length"),
        theta=single(f"{arch}.rope.freq_base"),
        epsilon=single(f"{arch}.attention.layer_norm_rms_epsilon"),
        context=value(reader, f"{arch}.context_length"),
    )


def tokenizer(reader: gguf.GGUFReader) -> tok.Tokenizer:
    """The tokenizer with the file's vocabulary. It cuts texts as export.py's models do."""
    state = json.loads(tok.new().to_str())
    merges = [m.split(" ") for m in value(reader, "tokenizer.ggml.merges")]
    # weights of up to 12,642 steps joined words with their space by merges
    if value(reader, "tokenizer.ggml.pre") == "qwen2":
        merges = [m for m in merges if not (m[0] == tok.SPACE and m[1].isalpha())]
    texts = value(reader, "tokenizer.ggml.tokens")
    state["model"] |= {"vocab": {text: i for i, text in enumerate(texts)}, "merges": merges}
    return tok.Tokenizer.from_str(json.dumps(state))


def read(path: str) -> tuple[Qwen3, tok.Tokenizer]:
    """The model with the file's weights, and its tokenizer."""
    reader = gguf.GGUFReader(path)
    model = Qwen3(shape(reader))
    of = tensors(model)
    there = {t.name: t for t in reader.tensors}
    if there.keys() != of.keys():
        raise SystemExit(f"{path} has other tensors: {sorted(there.keys() ^ of.keys())}")
    with torch.no_grad():
        for name, t in of.items():
            if there[name].tensor_type not in READABLE:
                raise SystemExit(
                    f"{path}: {name} is {there[name].tensor_type.name}: only {', '.join(sorted(r.name for r in READABLE))} can be read"
                )
            t.copy_(torch.tensor(gguf.dequantize(there[name].data, there[name].tensor_type)).view(t.shape))
    return model, tokenizer(reader)


def rows(path: str) -> list[dict]:
    """The rows of a curve.csv of train.py."""
    with open(path, newline="", encoding="utf-8") as f:
        return [
            {"step": int(r["step"])} | {k: float(r[k]) for k in ("loss", "held_out", "exact")}
            for r in csv.DictReader(f)
        ]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", required=True, help="GGUF file")
    p.add_argument("--curve", help="curve.csv of its training, to be continued")
    p.add_argument("--checkpoint", required=True, help="where to write the checkpoint")
    p.add_argument("--tokenizer", required=True, help="where to write tokenizer.json")
    args = p.parse_args()
    model, tokenizer = read(args.model)
    before = rows(args.curve) if args.curve else []
    tokenizer.save(args.tokenizer)  # before the checkpoint, which marks the end of the conversion
    torch.save(
        {
            "shape": model.shape.dict(),
            "model": model.state_dict(),
            "rows": before,
            "step": before[-1]["step"] if before else 0,
        },
        args.checkpoint + ".new",
    )
    os.replace(args.checkpoint + ".new", args.checkpoint)
    print(
        f"{args.checkpoint}: {sum(t.numel() for t in model.parameters()):,} parameters, {tokenizer.get_vocab_size()} ids"
    )


if __name__ == "__main__":
    main()

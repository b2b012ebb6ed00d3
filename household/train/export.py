"""Writes a trained model as a GGUF file that llama.cpp loads."""

import argparse
import json
import os

import gguf
import numpy as np
import torch

import tokenizer as tok
from model import Qwen3, Shape
from packing import Node, encode_segments, pack

LICENSE = "mit"  # the project's, ../../LICENSE
NAME = "agentd household"
TOKEN_TYPES = {"control": gguf.TokenType.CONTROL, "user-defined": gguf.TokenType.USER_DEFINED}
TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chat_template.jinja")


def load(checkpoint: str) -> Qwen3:
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    model = Qwen3(Shape(**state["shape"]))
    model.load_state_dict(state.get("average", state["model"]))
    return model.eval()


@torch.no_grad()
def mix(model: Qwen3, before: Qwen3, share: float) -> Qwen3:
    """An average of the model and of the weights from which its training began (Wortsman et al., arXiv:2109.01903)."""
    for p, b in zip(model.parameters(), before.parameters(), strict=True):
        p.lerp_(b, share)
    return model


def tensors(model: Qwen3) -> dict[str, torch.Tensor]:
    """The weights under their names in GGUF. Embeddings are tied, so there is no output matrix."""
    out = {"token_embd.weight": model.embedding, "output_norm.weight": model.norm.weight}
    for i, b in enumerate(model.blocks):
        out |= {
            f"blk.{i}.{name}.weight": module.weight
            for name, module in {
                "attn_norm": b.attn_norm,
                "attn_q": b.attn.q,
                "attn_k": b.attn.k,
                "attn_v": b.attn.v,
                "attn_q_norm": b.attn.q_norm,
                "attn_k_norm": b.attn.k_norm,
                "attn_output": b.attn.out,
                "ffn_norm": b.ffn_norm,
                "ffn_gate": b.gate,
                "ffn_up": b.up,
                "ffn_down": b.down,
            }.items()
        }
    return {name: t.detach().float() for name, t in out.items()}


def add_vocabulary(w: gguf.GGUFWriter, tokenizer: tok.Tokenizer) -> None:
    state = json.loads(tokenizer.to_str())["model"]
    by_id = sorted(state["vocab"], key=state["vocab"].get)
    ids = {text: i for i, text in enumerate(by_id)}
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(tok.PRE)
    w.add_token_list(by_id)
    w.add_token_types([TOKEN_TYPES[tok.SPECIALS[t]] if t in tok.SPECIALS else gguf.TokenType.NORMAL for t in by_id])
    w.add_token_merges([" ".join(m) if isinstance(m, list) else m for m in state["merges"]])
    w.add_bos_token_id(ids["<|endoftext|>"])
    w.add_pad_token_id(ids["<|endoftext|>"])
    w.add_eos_token_id(ids["<|im_end|>"])
    w.add_add_bos_token(False)


def write(model: Qwen3, tokenizer: tok.Tokenizer, path: str) -> None:
    s = model.shape
    w = gguf.GGUFWriter(path, "qwen3")
    w.add_type("model")
    w.add_name(NAME)
    w.add_license(LICENSE)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    w.add_context_length(s.context)
    w.add_embedding_length(s.width)
    w.add_block_count(s.layers)
    w.add_feed_forward_length(s.ffn)
    w.add_head_count(s.heads)
    w.add_head_count_kv(s.kv_heads)
    w.add_key_length(s.head_dim)
    w.add_value_length(s.head_dim)
    w.add_layer_norm_rms_eps(s.epsilon)
    w.add_rope_freq_base(s.theta)
    add_vocabulary(w, tokenizer)
    with open(TEMPLATE, encoding="utf-8") as f:
        w.add_chat_template(f.read())
    for name, value in tensors(model).items():
        w.add_tensor(name, (value.half() if value.dim() > 1 else value).numpy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


@torch.no_grad()
def rounded(model: Qwen3) -> Qwen3:
    """The model with its weights rounded as in a file: matrices have the type F16."""
    for p in model.parameters():
        if p.dim() > 1:
            p.copy_(p.half())
    return model


@torch.no_grad()
def expectations(model: Qwen3, tokenizer: tok.Tokenizer, data: str, samples: int, rows: int) -> list[dict]:
    """The expected results of llama.cpp for the first groups: tokens of each prompt, and logits of the decisions."""
    out = []
    for number, group in enumerate(tok.groups(data)):
        if number == samples:
            break
        segments = [{"pieces": group["prefix"], "loss": False}] + group["episodes"][0]
        runs = encode_segments(tokenizer, segments)
        ids = np.concatenate([np.array(r, dtype=np.int64) for r, _ in runs])
        loss = np.concatenate([np.full(len(r), wanted) for r, wanted in runs])
        batch = pack([Node(ids, loss, -1)])
        at = batch.rows[torch.linspace(0, len(batch.rows) - 1, rows).long()].unique()
        # The server's prompt ends where the model's text begins.
        texts, merged = [], None
        for segment in segments:
            if segment["loss"] != merged:
                texts.append([])
                merged = segment["loss"]
            texts[-1] += segment["pieces"]
        out.append(
            {
                "texts": [list(tok.joined(t)) for t in texts],
                "ids": ids.tolist(),
                "rows": at.tolist(),
                "logits": [[round(v, 5) for v in row] for row in model(batch, torch.float32, at).tolist()],
            }
        )
    return out


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--checkpoint", required=True)
    p.add_argument("--tokenizer", required=True)
    p.add_argument("--before", help="checkpoint that the training began with")
    p.add_argument(
        "--keep", type=float, default=0.0, help="share of its weights, from 0 to 1, in those that are written"
    )
    p.add_argument("--out", required=True, help="GGUF file")
    p.add_argument("--data", help="JSONL from which to make what the check expects")
    p.add_argument("--expect", help="where to write it, for `go run ./household/train/check`")
    args = p.parse_args()
    if not 0 <= args.keep <= 1 or args.keep and not args.before:
        p.error("--keep is a share, from 0 to 1, of the weights of --before")
    model, tokenizer = load(args.checkpoint), tok.Tokenizer.from_file(args.tokenizer)
    if args.keep:
        model = mix(model, load(args.before), args.keep)
    model = rounded(model)
    write(model, tokenizer, args.out)
    print(f"{args.out}: {os.path.getsize(args.out):,} bytes")
    if args.expect:
        with open(args.expect, "w", encoding="utf-8") as f:
            json.dump(expectations(model, tokenizer, args.data, samples=3, rows=8), f)


if __name__ == "__main__":
    main()

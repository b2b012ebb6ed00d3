"""Measures HF transformers' generate on a trace of agentbench, as a peer of agentd.

The trace must be rendered (agentbench trace --model FILE --out FILE): its tokens are what agentd gives to the model.
The turns are asked in their order; of each, so many agents at once as --batch says, their prompts padded on the left,
with num_return_sequences candidates of exactly --fixed-tokens tokens, sampled at temperature 1 with nothing cut off.
It keeps no cache between calls, which is what transformers' users have by default. The weights are random ones of the
file's shape: with a fixed number of tokens they are the same load as its own.
"""

import argparse
import json
import os
import statistics
import sys
import time

import torch
from gguf import GGUFReader

from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def arguments(given=None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True, help="GGUF file, the one that the trace was rendered with")
    p.add_argument("--trace", required=True, help="rendered trace (JSONL)")
    p.add_argument("--fixed-tokens", type=int, required=True, help="tokens of each candidate")
    p.add_argument(
        "--batch", type=int, nargs="+", default=[1, 4, 16], help="agents asked at once; the best is reported"
    )
    p.add_argument(
        "--type", choices=TYPES, nargs="+", default=list(TYPES), help="types of the weights; the best is reported"
    )
    p.add_argument("--threads", type=int, default=os.cpu_count(), help="CPU threads")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--repeats", type=int, default=3, help="of the best setting; the median is reported")
    a = p.parse_args(given)
    if a.fixed_tokens < 1 or min(a.batch) < 1 or a.repeats < 1:
        p.error("--fixed-tokens, --batch and --repeats must be at least 1")
    return a


def read(path: str) -> list[list[dict]]:
    """The turns of a trace, those with the same number together."""
    with open(path, encoding="utf-8") as f:
        header = json.loads(f.readline())
        turns = [json.loads(line) for line in f]
    if header.get("version") != 1 or not turns:
        raise SystemExit(f"{path} is no trace of agentbench")
    if any(not t.get("tokens") for t in turns):
        raise SystemExit(f"{path} has no tokens: write it with agentbench trace --model FILE")
    rounds: dict[int, list[dict]] = {}
    for t in turns:
        rounds.setdefault(t["turn"], []).append(t)
    return [rounds[n] for n in sorted(rounds)]


def shape(path: str) -> Qwen3Config:
    """The shape of a Qwen 3 in a GGUF file."""
    reader = GGUFReader(path)
    value = lambda key: reader.fields[key].contents()
    architecture = value("general.architecture")
    if architecture != "qwen3":
        raise SystemExit(f"{path} is of the architecture {architecture}; this program knows qwen3")
    number = lambda key: value(f"qwen3.{key}")
    names = {t.name: t.shape for t in reader.tensors}
    return Qwen3Config(
        vocab_size=int(names["token_embd.weight"][1]),
        hidden_size=number("embedding_length"),
        num_hidden_layers=number("block_count"),
        intermediate_size=number("feed_forward_length"),
        num_attention_heads=number("attention.head_count"),
        num_key_value_heads=number("attention.head_count_kv"),
        head_dim=number("attention.key_length"),
        max_position_embeddings=number("context_length"),
        rope_theta=float(number("rope.freq_base")),
        tie_word_embeddings="output.weight" not in names,
    )


@torch.inference_mode()
def run(model, rounds: list[list[dict]], batch: int, tokens: int) -> float:
    """Decisions a second over the whole trace."""
    decisions = 0
    began = time.perf_counter()
    for turns in rounds:
        for first in range(0, len(turns), batch):
            group = turns[first : first + batch]
            width = max(len(t["tokens"]) for t in group)
            ids = torch.tensor([[0] * (width - len(t["tokens"])) + t["tokens"] for t in group], device=model.device)
            mask = torch.tensor(
                [[0] * (width - len(t["tokens"])) + [1] * len(t["tokens"]) for t in group], device=model.device
            )
            candidates = group[0]["candidates"]
            config = GenerationConfig(
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                num_return_sequences=candidates,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
                pad_token_id=0,
            )
            out = model.generate(input_ids=ids, attention_mask=mask, generation_config=config)
            if tuple(out.shape) != (len(group) * candidates, width + tokens):
                raise SystemExit(f"generate gave {tuple(out.shape)} tokens")
            decisions += len(out)
    return decisions / (time.perf_counter() - began)


def main() -> None:
    a = arguments()
    torch.set_num_threads(a.threads)
    rounds = read(a.trace)
    config = shape(a.model)
    best = None
    for name in a.type:
        torch.manual_seed(1)
        model = Qwen3ForCausalLM(config).to(device=a.device, dtype=TYPES[name]).eval()
        model.generation_config.eos_token_id = None  # every candidate has all its tokens
        for batch in a.batch:
            speed = run(model, rounds[:1], batch, a.fixed_tokens)
            print(
                f"{name}, {batch} agents at once: {speed:.2f} decisions/s in the first turns",
                file=sys.stderr,
                flush=True,
            )
            if best is None or speed > best[0]:
                best = speed, name, batch, model
    _, name, batch, model = best
    speeds = [run(model, rounds, batch, a.fixed_tokens) for _ in range(a.repeats)]
    print(
        json.dumps(
            {
                "decisions_per_second": round(statistics.median(speeds), 3),
                "repeats": [round(s, 3) for s in speeds],
                "type": name,
                "batch": batch,
                "threads": a.threads,
                "device": a.device,
                "torch": torch.__version__,
                "fixed_tokens": a.fixed_tokens,
            }
        )
    )


if __name__ == "__main__":
    main()

"""Trains a LoRA adapter for the default model on chat rows of `agentd export`, and writes it and the merged model."""

import argparse
import json
import math
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import gguf
import jinja2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import export
import restore
import tokenizer as tok
from model import Linear, Qwen3
from packing import Node, pack

CHECKPOINT, ADAPTER, MODEL = "lora.pt", "adapter.gguf", "model.gguf"  # files in --out
# The matrices with an adapter: the names of export.tensors, and where they are in a block.
ADAPTED = {
    "attn_q": "attn.q",
    "attn_k": "attn.k",
    "attn_v": "attn.v",
    "attn_output": "attn.out",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_down": "down",
}
SPECIAL = re.compile("(" + "|".join(map(re.escape, tok.SPECIALS)) + ")")


class Lora(nn.Module):
    """A fixed matrix W with a trained addition: W x + alpha / rank B A x (Hu et al., arXiv:2106.09685).

    A has the shape [rank, inputs], B [outputs, rank]. B is zero at first.
    """

    def __init__(self, base: Linear, rank: int, alpha: float):
        super().__init__()
        outputs, inputs = base.weight.shape
        self.base, self.scale = base, alpha / rank
        self.a = nn.Parameter(torch.randn(rank, inputs) / math.sqrt(inputs))
        self.b = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + F.linear(F.linear(x, self.a.to(x.dtype)), self.b.to(x.dtype)) * self.scale

    @torch.no_grad()
    def merged(self) -> Linear:
        """The matrix with the addition in it."""
        self.base.weight.add_(self.b @ self.a, alpha=self.scale)
        return self.base


def adapt(model: Qwen3, rank: int, alpha: float) -> dict[str, Lora]:
    """Gives the model adapters and returns them by their names in GGUF. All else is fixed."""
    model.requires_grad_(False)
    adapters = {}
    for i, block in enumerate(model.blocks):
        for name, path in ADAPTED.items():
            parent, _, own = path.rpartition(".")
            module = block.get_submodule(parent)
            adapters[f"blk.{i}.{name}.weight"] = Lora(getattr(module, own), rank, alpha)
            setattr(module, own, adapters[f"blk.{i}.{name}.weight"])
    return adapters


def merge(model: Qwen3) -> Qwen3:
    """The model without adapters, their additions in its weights."""
    for block in model.blocks:
        for path in ADAPTED.values():
            parent, _, own = path.rpartition(".")
            module = block.get_submodule(parent)
            setattr(module, own, getattr(module, own).merged())
    return model


@dataclass
class Row:
    """A decision as tokens."""

    key: tuple  # of the step that it answers
    prompt: list[int]
    answer: list[int]
    weight: float  # of its loss


class Renderer:
    """Renders chat rows by the chat template of the model, as the server does."""

    def __init__(self, tokenizer: tok.Tokenizer, template: str):
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
        self.template = environment.from_string(template)
        self.tokenizer = tokenizer

    def text(self, messages: list[dict], tools, begins: bool) -> str:
        return self.template.render(messages=messages, tools=tools, add_generation_prompt=begins)

    def ids(self, text: str) -> list[int]:
        return tok.encode(self.tokenizer, [["s" if p in tok.SPECIALS else "t", p] for p in SPECIAL.split(text) if p])

    def row(self, row: dict, corrected: float) -> Row:
        *asked, answer = row["messages"]
        if answer["role"] != "assistant":
            raise ValueError("the last message is not the assistant's")
        tools = row.get("tools") or None
        tools = json.loads(tools) if isinstance(tools, str) else tools
        prompt = self.text(asked, tools, True)
        whole = self.text(row["messages"], tools, False)
        if not whole.startswith(prompt):
            raise ValueError("the chat template does not begin an answer as it renders one")
        answer_text = whole[len(prompt) :].removesuffix("\n")  # the turn ends before the newline
        weight = corrected if row.get("origin") == "coaching" else 1.0
        return Row(key(row), self.ids(prompt), self.ids(answer_text), weight)


def key(row: dict) -> tuple:
    return row.get("run_id"), row.get("request_id"), row.get("source_id"), row.get("origin")


def lines(path: str) -> Iterator[tuple[int, dict]]:
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            yield number, json.loads(line)


def read(renderer: Renderer, paths: list[str], tokens: list[str], context: int, corrected: float) -> list[Row]:
    """The rows of files. Where tokens has the prompt of the same step, it must be equal."""
    rows = []
    for path in paths:
        for number, row in lines(path):
            if "messages" not in row:
                raise SystemExit(f"{path} line {number} is no chat row: write it with agentd export --kind chat")
            try:
                rows.append(renderer.row(row, corrected))
            except (ValueError, jinja2.TemplateError) as e:
                raise SystemExit(f"{path} line {number}: {e}") from e
    seen = {key(row): row["prompt_token_ids"] for path in tokens for _, row in lines(path)}
    for row in rows:
        if row.prompt != seen.get(row.key, row.prompt):
            raise SystemExit(f"{row.key}: the prompt has other tokens than the server saw")
    short = [r for r in rows if len(r.prompt) + len(r.answer) <= context]
    if len(short) < len(rows):
        print(f"{len(rows) - len(short)} rows are longer than the context of {context} tokens and left out", flush=True)
    if not short:
        raise SystemExit("there are no rows to learn from")
    return short


def tree(rows: list[Row]) -> list[Node]:
    """Rows as a tree: what they begin with in common is one node. Equal rows are learned once."""
    runs = sorted({tuple(zip(r.prompt + r.answer, [0.0] * len(r.prompt) + [r.weight] * len(r.answer))) for r in rows})
    nodes: list[Node] = []

    def grow(low: int, high: int, depth: int, parent: int) -> None:
        """Nodes of the runs from low to before high, which share their first depth tokens."""
        while low < high and len(runs[low]) == depth:
            low += 1  # it ends here
        while low < high:
            end = low + 1
            while end < high and runs[end][depth] == runs[low][depth]:
                end += 1
            # Sorted runs share what the first and the last one share.
            shared = depth
            for a, b in zip(runs[low][depth:], runs[end - 1][depth:]):
                if a != b:
                    break
                shared += 1
            ids, weights = zip(*runs[low][depth:shared])
            nodes.append(Node(np.array(ids, dtype=np.int64), np.array(weights), parent))
            grow(low, end, shared, len(nodes) - 1)
            low = end

    grow(0, len(runs), 0, -1)
    return nodes


def batches(rows: list[Row], tokens: int) -> list[list[Node]]:
    """Trees of about a number of tokens, of rows that begin alike."""
    made, pile, size = [], [], 0
    before: list[int] = []
    for row in sorted(rows, key=lambda r: r.prompt):
        shared = next(
            (i for i, (a, b) in enumerate(zip(before, row.prompt)) if a != b), min(len(before), len(row.prompt))
        )
        own = len(row.prompt) + len(row.answer) - shared
        if pile and size + own > tokens:
            made.append(tree(pile))
            pile, size, own = [], 0, len(row.prompt) + len(row.answer)
        pile.append(row)
        size, before = size + own, row.prompt
    if pile:
        made.append(tree(pile))
    return made


def loss(model: Qwen3, nodes: list[Node], dtype: torch.dtype) -> tuple[Tensor, float]:
    """The weighted sum of the losses of the answers' tokens, and the sum of the weights."""
    batch = pack(nodes)
    weights = torch.from_numpy(np.concatenate([n.loss[n.loss > 0] for n in nodes])).float()
    each = F.cross_entropy(model(batch, dtype, batch.rows), batch.targets, reduction="none")
    return (each * weights).sum(), float(weights.sum())


def write_adapter(adapters: dict[str, Lora], alpha: float, path: str) -> None:
    """The adapter as a GGUF file, as llama.cpp reads it."""
    w = gguf.GGUFWriter(path, "qwen3")
    w.add_type("adapter")
    w.add_string("adapter.type", "lora")
    w.add_float32("adapter.lora.alpha", alpha)
    for name, lora in adapters.items():
        w.add_tensor(name + ".lora_a", lora.a.detach().numpy())
        w.add_tensor(name + ".lora_b", lora.b.detach().numpy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


class Trainer:
    def __init__(self, args: argparse.Namespace):
        self.args = args
        torch.compiler.set_stance("force_eager")  # compiling takes a minute of each short run
        torch.set_num_threads(args.threads)
        torch.manual_seed(args.seed)
        self.model, self.tokenizer = restore.read(args.model)
        template = gguf.GGUFReader(args.model).fields["tokenizer.chat_template"].contents()
        rows = read(
            Renderer(self.tokenizer, template), args.rows, args.tokens, self.model.shape.context, args.corrected
        )
        corrections = sum(r.weight != 1 for r in rows)
        self.batches = batches(rows, args.batch)
        self.total = args.epochs * len(self.batches)
        self.adapters = adapt(self.model, args.rank, args.alpha)
        self.parameters = [p for lora in self.adapters.values() for p in lora.parameters(recurse=False)]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=args.rate, betas=(0.9, 0.95), weight_decay=args.decay)
        self.step, self.spent = 0, 0.0  # seconds
        print(
            f"{len(rows)} rows, {corrections} with the weight of corrections, {len(self.batches)} batches, "
            f"{sum(p.numel() for p in self.parameters):,} trained parameters",
            flush=True,
        )
        self.path = os.path.join(args.out, CHECKPOINT)
        if os.path.exists(self.path):
            state = torch.load(self.path, weights_only=True)
            with torch.no_grad():
                for p, saved in zip(self.parameters, state["parameters"], strict=True):
                    p.copy_(saved)
            self.optimizer.load_state_dict(state["optimizer"])
            self.step, self.spent = state["step"], state["spent"]
            print(f"from step {self.step}", flush=True)

    def save(self) -> None:
        state = {
            "parameters": [p.detach() for p in self.parameters],
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "spent": self.spent,
        }
        torch.save(state, self.path + ".new")
        os.replace(self.path + ".new", self.path)

    def progress(self) -> float:
        """From 0 to 1: the larger share of the time and of the steps."""
        return max(self.spent / (60 * self.args.minutes), self.step / self.total)

    def run(self) -> None:
        a = self.args
        dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[a.type]
        mark = saved = time.monotonic()
        seen = learned = 0.0
        while self.progress() < 1:
            epoch, at = divmod(self.step, len(self.batches))
            order = np.random.default_rng([a.seed, epoch]).permutation(len(self.batches))
            value, weight = loss(self.model, self.batches[order[at]], dtype)
            (value / weight).backward()
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
            for group in self.optimizer.param_groups:
                group["lr"] = a.rate * min(1, (self.step + 1) / a.warmup) * (1 - self.progress())
            self.optimizer.step()
            self.optimizer.zero_grad()
            if not math.isfinite(value.item()):
                raise SystemExit(f"step {self.step + 1}: the loss is {value.item()}: train with a lower --rate")
            self.step, seen, learned = self.step + 1, seen + value.item(), learned + weight
            now = time.monotonic()
            self.spent, mark = self.spent + now - mark, now
            if now - saved > a.save or self.progress() >= 1:
                print(f"step {self.step} of {self.total}, {self.spent:.0f} s: loss {seen / learned:.4f}", flush=True)
                self.save()
                saved, seen, learned = now, 0.0, 0.0
        self.write()

    def write(self) -> None:
        """Writes the adapter, then the model, which marks the end of the training."""
        at = lambda name: os.path.join(self.args.out, name)
        write_adapter(self.adapters, self.args.alpha, at(ADAPTER + ".new"))
        os.replace(at(ADAPTER + ".new"), at(ADAPTER))
        model = export.rounded(merge(self.model), "f16")
        export.write(model, self.tokenizer, at(MODEL + ".new"), "f16", self.args.name)
        os.replace(at(MODEL + ".new"), at(MODEL))
        print(f"{at(MODEL)}: written", flush=True)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--model", required=True, help="GGUF file of export.py to begin with")
    p.add_argument("--rows", required=True, action="append", help="JSONL of agentd export --kind chat; may be repeated")
    p.add_argument("--tokens", action="append", default=[], help="rollouts of the same steps, to check the prompts")
    p.add_argument("--out", required=True, help="directory for the checkpoint, the adapter and the model")
    p.add_argument("--minutes", type=float, default=10, help="of training; a run that goes on counts what was spent")
    p.add_argument("--epochs", type=int, default=3, help="at most")
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--alpha", type=float, default=32.0, help="the addition is multiplied by alpha / rank")
    p.add_argument("--rate", type=float, default=1e-3, help="learning rate, which falls to zero")
    p.add_argument("--warmup", type=int, default=10, help="steps until it is reached")
    p.add_argument("--decay", type=float, default=0.01, help="weight decay")
    p.add_argument("--corrected", type=float, default=4.0, help="weight of corrections; right decisions have 1")
    p.add_argument("--batch", type=int, default=4000, help="tokens of a step")
    p.add_argument("--type", choices=("float32", "bfloat16"), default="float32", help="type of the computation")
    p.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--save", type=float, default=20, help="seconds between checkpoints")
    p.add_argument("--name", default="agentd household, learned", help="general.name")
    a = p.parse_args(given)
    for name in ("minutes", "epochs", "rank", "rate", "warmup", "corrected", "batch", "threads"):
        if getattr(a, name) <= 0:
            p.error(f"--{name}: must be above 0")
    return a


if __name__ == "__main__":
    Trainer(arguments()).run()

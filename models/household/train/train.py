"""Trains the default model."""

import argparse
import csv
import json
import math
import os
import time
from typing import Iterator

import numpy as np
import torch

import plot
from model import Qwen3, Shape
from packing import Data

TYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--data", required=True, help="JSONL to learn from")
    p.add_argument("--eval", required=True, help="JSONL to measure on")
    p.add_argument("--tokenizer", required=True, help="tokenizer.json")
    p.add_argument("--out", required=True, help="directory for the checkpoint and the curve")
    p.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out, if there is one")
    p.add_argument("--epochs", type=float, default=1, help="passes over the data, unless --steps is given")
    p.add_argument("--steps", type=int, help="steps of the whole run; the learning rate falls to nothing at its end")
    p.add_argument("--minutes", type=float, default=math.inf, help="stop early, with a checkpoint, after so long")
    p.add_argument("--batch", type=int, default=16384, help="about how many tokens a step sees")
    p.add_argument("--pack", type=int, default=8192, help="about how many tokens are computed at once")
    p.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    p.add_argument("--warmup", type=int, default=100, help="steps until it is reached")
    p.add_argument("--decay", type=float, default=0.1, help="weight decay of matrices")
    p.add_argument("--clip", type=float, default=1.0, help="bound of the gradient's norm")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--type", choices=TYPES, default="bfloat16", help="type of the computation; weights stay float32")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--evaluate", type=int, default=200, help="steps between measurements")
    p.add_argument("--eval-groups", type=int, default=32, help="groups to measure on")
    p.add_argument("--save", type=float, default=3, help="minutes between checkpoints")
    return p.parse_args(given)


def steps_of(data: Data, tokens: int, seed: int) -> Iterator[list[int]]:
    """Groups of about so many tokens, for ever, each epoch in another order."""
    step: list[int] = []
    size = 0
    for epoch in range(2**31):
        for g in np.random.default_rng([seed, epoch]).permutation(len(data)):
            step.append(int(g))
            size += data.size(g)
            if size >= tokens:
                yield step
                step, size = [], 0


def packs(data: Data, groups: list[int], tokens: int) -> Iterator[list[int]]:
    """Cuts a step into what is computed at once; like lengths lie together."""
    pack: list[int] = []
    size = 0
    for g in sorted(groups, key=data.size):
        if pack and size + data.size(g) > tokens:
            yield pack
            pack, size = [], 0
        pack.append(g)
        size += data.size(g)
    if pack:
        yield pack


class Trainer:
    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.dtype = TYPES[args.type]
        torch.set_num_threads(args.threads)
        torch.manual_seed(args.seed)
        self.data = Data(args.data, args.tokenizer)
        self.held_out = Data(args.eval, args.tokenizer)
        with open(args.tokenizer, encoding="utf-8") as f:
            vocabulary = len(json.load(f)["model"]["vocab"])
        self.model = Qwen3(Shape(vocabulary=vocabulary)).to(self.device)
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        vectors = [p for p in self.model.parameters() if p.dim() == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": args.decay}, {"params": vectors, "weight_decay": 0.0}],
            lr=args.rate, betas=(0.9, 0.95), fused=True)
        self.total = args.steps or max(1, int(args.epochs * sum(map(self.data.size, range(len(self.data)))) / args.batch))
        self.step = 0
        self.rows: list[dict] = []
        os.makedirs(args.out, exist_ok=True)
        self.checkpoint = os.path.join(args.out, "checkpoint.pt")
        if args.resume and os.path.exists(self.checkpoint):
            self.load()

    def load(self) -> None:
        state = torch.load(self.checkpoint, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.rows = state["step"], state["rows"]

    def save(self) -> None:
        """Writes the checkpoint, which is whole at any time, and the curve."""
        torch.save({"shape": self.model.shape.dict(), "model": self.model.state_dict(),
                    "optimizer": self.optimizer.state_dict(), "step": self.step, "rows": self.rows},
                   self.checkpoint + ".new")
        os.replace(self.checkpoint + ".new", self.checkpoint)
        if self.rows:
            with open(os.path.join(self.args.out, "curve.csv"), "w", newline="", encoding="utf-8") as f:
                writer = csv.DictWriter(f, self.rows[0])
                writer.writeheader()
                writer.writerows(self.rows)
            plot.curve(self.rows, os.path.join(self.args.out, "curve.svg"))

    def rate(self) -> float:
        """Linear warm-up, then a cosine down to nothing."""
        warmup = min(self.args.warmup, self.total // 10 + 1)
        if self.step < warmup:
            return self.args.rate * (self.step + 1) / warmup
        return self.args.rate * 0.5 * (1 + math.cos(math.pi * min(1, (self.step - warmup) / max(1, self.total - warmup))))

    def learn(self, groups: list[int]) -> tuple[float, int, int]:
        """One step: the loss per target, and how many tokens and decisions were seen."""
        targets = decisions = tokens = 0
        loss = 0.0
        for pack in packs(self.data, groups, self.args.pack):
            batch = self.data.batch(pack).to(self.device)
            total, _ = self.model.loss(batch, self.dtype)
            total.backward()
            loss += total.item()
            targets += len(batch.targets)
            decisions += batch.count
            tokens += len(batch.tokens)
        for p in self.model.parameters():
            p.grad /= targets
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss / targets, tokens, decisions

    @torch.no_grad()
    def measure(self) -> tuple[float, float]:
        """Loss per target on held-out groups, and the share of decisions whose tokens are all the most likely ones."""
        loss, targets, exact, decisions = 0.0, 0, 0, 0
        groups = list(range(min(self.args.eval_groups, len(self.held_out))))
        for pack in packs(self.held_out, groups, self.args.pack):
            batch = self.held_out.batch(pack).to(self.device)
            total, right = self.model.loss(batch, self.dtype)
            loss += total.item()
            targets += len(batch.targets)
            wrong = torch.zeros(batch.count, dtype=torch.int64, device=self.device)
            wrong.index_add_(0, batch.decisions, (~right).long())
            exact += int((wrong == 0).sum())
            decisions += batch.count
        return loss / targets, exact / decisions

    def run(self) -> None:
        a = self.args
        print(f"{sum(p.numel() for p in self.model.parameters()):,} parameters, {len(self.data)} groups, "
              f"{self.total} steps on {self.device} in {a.type}, from step {self.step}", flush=True)
        begin = saved = mark = time.monotonic()
        tokens = decisions = 0
        losses: list[float] = []
        for number, groups in enumerate(steps_of(self.data, a.batch, a.seed)):
            if number < self.step:
                continue  # seen before the checkpoint
            if self.step >= self.total or time.monotonic() - begin > a.minutes * 60:
                break
            loss, t, d = self.learn(groups)
            losses.append(loss)
            tokens, decisions = tokens + t, decisions + d
            self.step += 1
            if self.step % a.evaluate == 0 or self.step == self.total:
                spent = time.monotonic() - mark
                held_out, exact = self.measure()
                self.rows.append({"step": self.step, "loss": round(float(np.mean(losses)), 5),
                                  "held_out": round(held_out, 5), "exact": round(exact, 5)})
                print(f"step {self.step}: loss {np.mean(losses):.4f}, held-out {held_out:.4f}, exact {exact:.1%}, "
                      f"{tokens / spent:,.0f} tokens/s, {decisions / spent:.1f} decisions/s", flush=True)
                losses, tokens, decisions, mark = [], 0, 0, time.monotonic()
            if time.monotonic() - saved > a.save * 60:
                self.save()
                saved = time.monotonic()
        self.save()


if __name__ == "__main__":
    Trainer(arguments()).run()

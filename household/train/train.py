"""Trains the default model."""

import argparse
import contextlib
import csv
import itertools
import math
import os
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

import lookup
from model import Qwen3, Shape
from packing import Batch, Data
from renaming import Renamer

CHECKPOINT, COOLED = "checkpoint.pt", "cooled.pt"  # files in --out
TYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
CUT = 4  # parts that the groups are cut into: more houses in a step, and more tokens that no conversations share
BATCH = 5000  # at least how many tokens a step sees
PACK = 12288  # at most how many tokens are computed at once, if that holds a group
WARMUP = 20  # steps until the full rate
AVERAGE = 150  # steps over which the weights are averaged that are measured, and exported where nothing cools
DECAY = 0.1  # weight decay of the layers' matrices
CLIP = 1.0  # bound of the gradient's norm
PROMPT, PROMPT_STEPS = 0.5, 300  # weight of the loss of what new weights read, and steps in which it falls to nothing
RENAME = 0.5  # share of the parts of groups that get other names
EVALUATE, EVAL_GROUPS = 100, 8  # steps between measurements, and groups to measure on
SAVE = 180  # seconds between checkpoints


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--data", required=True, help="JSONL to learn from")
    p.add_argument("--first", help="JSONL to learn from first")
    p.add_argument(
        "--first-steps", type=int, default=0, help="steps in which to do so; from half of them on ever fewer"
    )
    p.add_argument("--eval", required=True, help="JSONL to measure on")
    p.add_argument("--tokenizer", required=True, help="tokenizer.json")
    p.add_argument("--out", required=True, help="directory for the checkpoint and the curve; continues one there")
    p.add_argument("--weights", help="checkpoint whose weights to begin with; the rates begin anew")
    p.add_argument("--steps", type=int, required=True, help="steps of the whole run, without those of --weights")
    p.add_argument(
        "--cool",
        type=int,
        required=True,
        help="then, over so many steps, let the rate fall to nothing; the checkpoint stays as it is before, to go on from",
    )
    p.add_argument("--rate", type=float, default=2e-3, help="learning rate")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--type", choices=TYPES, default="bfloat16", help="type of the computation; weights stay float32")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    return p.parse_args(given)


def steps_of(data: Data, tokens: int, seed: int) -> Iterator[list[int]]:
    """Endless steps of about a number of tokens, in a new order each epoch."""
    step: list[int] = []
    size = 0
    for epoch in range(2**31):
        for g in np.random.default_rng([seed, epoch]).permutation(len(data)):
            step.append(int(g))
            size += data.size(g)
            if size >= tokens:
                yield step
                step, size = [], 0


def lessons(step: int, steps: int, seed: int) -> bool:
    """Whether a step uses the first lessons: all steps of the first half do, then fewer and fewer."""
    share = 2 - 2 * step / steps if steps else 0
    return np.random.default_rng([seed, step]).random() < share


def packs(data: Data, groups: list[int], tokens: int) -> Iterator[list[int]]:
    """Cuts a step into batches of similar lengths."""
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
        self.data = Data(args.data, args.tokenizer, CUT)
        self.first = Data(args.first, args.tokenizer, CUT) if args.first else None
        # All data decide what a name is, also for the first lessons, which have fewer houses.
        self.renamer = Renamer(Tokenizer.from_file(args.tokenizer), self.data.whole(), args.seed)
        self.held_out = Data(args.eval, args.tokenizer)
        self.model = Qwen3(Shape(vocabulary=self.data.vocabulary)).to(self.device)
        matrices = [p for p in self.model.blocks.parameters() if p.dim() > 1]
        rest = [p for p in self.model.blocks.parameters() if p.dim() == 1]
        rest += [self.model.embedding, self.model.norm.weight]
        self.optimizers = [  # the layers' matrices, and the embedding with the vectors
            torch.optim.Muon(matrices, lr=args.rate, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(rest, lr=args.rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
        ]
        self.average = [p.detach().clone() for p in self.model.parameters()]
        self.averaged = 0  # number of averaged steps
        self.step = 0
        self.before = 0  # steps of the run behind --weights, for the curve
        self.rows: list[dict] = []
        os.makedirs(args.out, exist_ok=True)
        files = filter(os.path.exists, (os.path.join(args.out, name) for name in (COOLED, CHECKPOINT)))
        if not any(map(self.load, files)) and args.weights:
            state = torch.load(args.weights, map_location=self.device, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.before, self.rows = state.get("before", 0) + state["step"], state["rows"]
            self.know(None)

    def load(self, checkpoint: str) -> bool:
        """Goes on from a file of this run, unless that has cooled in another way."""
        state = torch.load(checkpoint, map_location=self.device, weights_only=True)
        cooling = state.get("cooling")
        if cooling and cooling != [self.args.steps, self.args.cool]:
            return False
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.before, self.rows = state["step"], state.get("before", 0), state["rows"]
        self.know(state.get("average"))
        self.averaged = state.get("averaged", 0)
        if state["seed"] != self.args.seed:
            raise SystemExit(f"{checkpoint} was made with --seed {state['seed']}, which decides what was seen")
        if not cooling and self.step > self.args.steps:
            raise SystemExit(f"{checkpoint} has {self.step} steps already: give --steps of at least that")
        return True

    def know(self, average: dict[str, Tensor] | None) -> None:
        """Sets the average, by default to the current weights."""
        for a, (name, p) in zip(self.average, self.model.named_parameters(), strict=True):
            a.copy_(p.detach() if average is None else average[name])

    @torch.no_grad()
    def remember(self) -> None:
        """Adds the weights of a step to the moving average, which at first spans a fifth of all steps."""
        share = 1 / min(AVERAGE, 1 + self.averaged // 5)
        torch._foreach_lerp_(self.average, list(self.model.parameters()), share)
        self.averaged += 1

    @contextlib.contextmanager
    def best(self) -> Iterator[None]:
        """Gives the model the weights to measure. At the full rate these are the average, roughly the result of cooling."""
        own = [p.data for p in self.model.parameters()]
        if self.step <= self.args.steps:
            for p, a in zip(self.model.parameters(), self.average, strict=True):
                p.data = a
        yield
        for p, o in zip(self.model.parameters(), own, strict=True):
            p.data = o

    def save(self) -> None:
        """Writes the curve and, atomically, the checkpoint."""
        cooling = self.step > self.args.steps
        path = os.path.join(self.args.out, COOLED if cooling else CHECKPOINT)
        more = {"cooling": [self.args.steps, self.args.cool]}
        if not cooling:
            average = dict(zip(dict(self.model.named_parameters()), self.average))
            more = {"averaged": self.averaged, "average": average}
        torch.save(
            {
                "shape": self.model.shape.dict(),
                "model": self.model.state_dict(),
                **more,
                "optimizers": [o.state_dict() for o in self.optimizers],
                "step": self.step,
                "before": self.before,
                "rows": self.rows,
                "seed": self.args.seed,
            },
            path + ".new",
        )
        os.replace(path + ".new", path)
        if self.rows:
            with open(os.path.join(self.args.out, "curve.csv"), "w", newline="", encoding="utf-8") as f:
                writer = csv.DictWriter(f, self.rows[0])
                writer.writeheader()
                writer.writerows(self.rows)

    def rate(self) -> float:
        """The share of the learning rates: linear warm-up, a plateau, a linear cooling."""
        a = self.args
        if self.step < a.steps:
            return min(1, (self.step + 1) / WARMUP)
        return (a.steps + a.cool - self.step) / a.cool

    def others(self, batch: Batch, random: torch.Generator) -> Tensor | None:
        """Half of the rows outside decisions. Predicting the text that it reads teaches the model to copy."""
        weight = self.prompt()
        if weight == 0:
            return None
        rows = torch.rand(len(batch.tokens), generator=random) < 0.5
        rows[torch.tensor(batch.sizes).cumsum(0) - 1] = False  # the next token may belong to another conversation
        rows[batch.rows] = False
        rows[batch.used :] = False
        return rows.nonzero()[:, 0]

    def prompt(self) -> float:
        """The weight of the loss of what the model reads."""
        return 0.0 if self.args.weights else PROMPT * max(0.0, 1 - self.step / PROMPT_STEPS)

    def learn(self, data: Data, groups: list[int]) -> Counter:
        """Does one step and returns its counts and the sum of the targets' losses."""
        done = Counter()
        random = torch.Generator().manual_seed(self.args.seed + (self.step << 16))
        names = np.random.default_rng([self.args.seed, self.step])
        rename = lambda tokens: self.renamer(tokens, names) if names.random() < RENAME else tokens
        for pack in packs(data, groups, PACK):
            batch = data.batch(pack, rename)
            others = self.others(batch, random)
            batch = batch.to(self.device)
            seen = {}
            loss, _, read = self.model.loss(batch, self.dtype, None if others is None else others.to(self.device), seen)
            done.update(loss=loss.item(), targets=len(batch.targets), decisions=batch.count, tokens=batch.used)
            looked, right = lookup.loss(batch, seen, self.step)
            for kind, (mass, count) in right.items():
                done.update({"mass " + kind: mass, "looks " + kind: count})
            (loss + self.prompt() * read + looked).backward()
        for p in self.model.parameters():
            p.grad /= done["targets"]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.args.rate * self.rate()
            optimizer.step()
            optimizer.zero_grad()
        return done

    @torch.no_grad()
    def measure(self) -> tuple[float, float]:
        """Loss per target on held-out groups, and the share of decisions whose tokens are all the most likely ones."""
        loss, targets, exact, decisions = 0.0, 0, 0, 0
        groups = list(range(min(EVAL_GROUPS, len(self.held_out))))
        for pack in packs(self.held_out, groups, PACK):
            batch = self.held_out.batch(pack).to(self.device)
            total, right, _ = self.model.loss(batch, self.dtype)
            loss += total.item()
            targets += len(batch.targets)
            wrong = torch.zeros(batch.count, dtype=torch.int64, device=self.device)
            wrong.index_add_(0, batch.decisions, (~right).long())
            exact += int((wrong == 0).sum())
            decisions += batch.count
        return loss / targets, exact / decisions

    def steps(self) -> Iterator[tuple[Data, list[int]]]:
        """Yields the data of each step."""
        a = self.args
        rest = steps_of(self.data, BATCH, a.seed)
        first = steps_of(self.first, BATCH, a.seed) if self.first else None
        for step in itertools.count():
            if first and lessons(step, a.first_steps, a.seed):
                yield self.first, next(first)
            else:
                yield self.data, next(rest)

    def run(self) -> None:
        a = self.args
        total = a.steps + a.cool
        print(
            f"{sum(p.numel() for p in self.model.parameters()):,} parameters, {len(self.data)} parts of groups, "
            f"{total} steps on {self.device} in {a.type}, from step {self.step}"
            + (f", after {self.before} of {a.weights}" if self.before else ""),
            flush=True,
        )
        saved = mark = time.monotonic()
        done = Counter()
        # skip what was used before the checkpoint
        for data, groups in itertools.islice(self.steps(), self.step, None):
            if self.step >= total:
                break
            learned = self.learn(data, groups)
            if not math.isfinite(learned["loss"]):
                raise SystemExit(
                    f"step {self.before + self.step + 1}: the loss is {learned['loss']}: go on from the last checkpoint with a lower rate"
                )
            done += learned
            self.step += 1
            self.remember()
            if self.step % EVALUATE == 0 or self.step == total:
                spent = time.monotonic() - mark
                with self.best():
                    held_out, exact = self.measure()
                loss = done["loss"] / done["targets"]
                self.rows.append(
                    {
                        "step": self.before + self.step,
                        "loss": round(loss, 5),
                        "held_out": round(held_out, 5),
                        "exact": round(exact, 5),
                    }
                )
                print(
                    f"step {self.before + self.step}: loss {loss:.4f}, held-out {held_out:.4f}, exact {exact:.1%}, "
                    + "".join(
                        f"{key[6:]} {done['mass ' + key[6:]] / done[key]:.0%}, "
                        for key in done
                        if key.startswith("looks ") and done[key]
                    )
                    + f"{done['tokens'] / spent:,.0f} tokens/s, {done['decisions'] / spent:.1f} decisions/s",
                    flush=True,
                )
                done, mark = Counter(), time.monotonic()
            if self.step == a.steps or time.monotonic() - saved > SAVE:
                self.save()
                saved = time.monotonic()
        self.save()


if __name__ == "__main__":
    Trainer(arguments()).run()

"""Groups of episodes as trees of tokens without padding.

The episodes of a group begin with the same prompt, and all groups with the same instructions. Shared
tokens are computed once: a batch is a list of nodes (runs of tokens), each of which continues its parent.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import tokenizer as tok
from reading import Read, Reader

# oneDNN compiles a product for each new shape, for a fifth of a step's time. So rows are filled up to a multiple of this.
ROWS = 64


def filled(x: Tensor) -> Tensor:
    """With zeros up to a multiple of ROWS in the last dimension but one."""
    return F.pad(x, (0, 0, 0, -x.shape[-2] % ROWS))


@dataclass
class Node:
    tokens: np.ndarray
    loss: np.ndarray  # for each token, whether the model must predict it
    parent: int  # index of the node before it; -1: none
    read: Read | None = None  # of the tokens from the root to the end of this node
    fills: bool = False  # it comes last and belongs to no conversation


@dataclass
class Batch:
    """Nodes, one after another in one row of tokens."""

    tokens: Tensor
    used: int  # tokens of conversations; the others fill the batch up
    positions: Tensor
    sizes: list[int]
    paths: list[list[int]]  # for each node, the path from the root to it
    rows: Tensor  # indices of the tokens before the targets
    targets: Tensor
    decisions: Tensor  # for each target, the number of its decision, which is an unbroken run of targets
    count: int  # decisions
    nodes: Tensor  # for each token, the index of its node
    before: Tensor  # for two nodes, whether the second is the first or one of its ancestors
    carry: Tensor  # for each token, the distance back to the name to which it belongs; -1: none
    looks: Tensor  # shape [3, n]: an index in reading.KINDS, a token, and a token to which it should attend

    def to(self, device: torch.device) -> "Batch":
        return Batch(**{f.name: move(getattr(self, f.name), device) for f in fields(self)})


def move(value, device: torch.device):
    """A tensor on the device; anything else unchanged."""
    return value.to(device) if isinstance(value, Tensor) else value


def pack(nodes: list[Node]) -> Batch:
    """Lays out nodes, parents before their children."""
    sizes = [len(n.tokens) for n in nodes]
    starts = np.cumsum([0] + sizes)
    depth, paths, positions, rows, targets, decisions = [], [], [], [], [], []
    decision = -1
    for i, n in enumerate(nodes):
        before = depth[n.parent] + sizes[n.parent] if n.parent >= 0 else 0
        depth.append(before)
        paths.append((paths[n.parent] if n.parent >= 0 else []) + [i])
        positions.append(np.arange(before, before + sizes[i]))
        at = np.flatnonzero(n.loss)
        previous = starts[i] + at - 1
        if len(at) and at[0] == 0:
            if n.parent < 0:
                raise ValueError("nothing stands before the first token, so it cannot be predicted")
            previous[0] = starts[n.parent + 1] - 1
        begins = np.diff(at, prepend=-2) > 1
        rows.append(previous)
        targets.append(n.tokens[at])
        decisions.append(decision + np.cumsum(begins))
        decision += int(begins.sum())
    flat = lambda arrays: torch.from_numpy(np.concatenate(arrays).astype(np.int64))
    before = torch.zeros(len(nodes), len(nodes), dtype=torch.bool)
    for i, path in enumerate(paths):
        before[i, path] = True
    carry, looks = [], [np.zeros((3, 0))]
    for i, n in enumerate(nodes):
        carry.append(np.full(sizes[i], -1) if n.read is None else n.read.carry[depth[i] : depth[i] + sizes[i]])
        carry[-1][carry[-1] > np.arange(sizes[i])] = -1  # its name is in another node
        if n.read is not None and n.read.looks:
            kinds, *at = np.array(
                [look for look in n.read.looks if depth[i] <= look[1] < depth[i] + sizes[i]] or np.zeros((0, 3), int)
            ).T
            path = np.concatenate([np.arange(starts[j], starts[j + 1]) for j in paths[i]])
            looks.append(np.stack((kinds, *(path[a] for a in at))))
    return Batch(
        flat([n.tokens for n in nodes]),
        sum(len(n.tokens) for n in nodes if not n.fills),
        flat(positions),
        sizes,
        paths,
        flat(rows),
        flat(targets),
        flat(decisions),
        decision + 1,
        torch.arange(len(nodes)).repeat_interleave(torch.tensor(sizes)),
        before,
        flat(carry),
        torch.from_numpy(np.concatenate(looks, axis=1).astype(np.int64)),
    )


class Data:
    """A data set as tokens, cached beside its file for each vocabulary. Each group of the file is cut into parts of similar size."""

    def __init__(self, path: str, tokenizer_path: str, cut: int = 1):
        self.cut = cut
        with open(tokenizer_path, "rb") as f:
            text = f.read()
        vocabulary = json.loads(text)["model"]["vocab"]
        self.vocabulary = len(vocabulary)
        self.reader = Reader(vocabulary)
        cache = f"{path}.{hashlib.sha256(text).hexdigest()[:12]}.npz"
        if not os.path.exists(cache) or os.path.getmtime(cache) < os.path.getmtime(path):
            self._write(cache, path, tok.Tokenizer.from_file(tokenizer_path))
        with np.load(cache) as z:
            self.tokens, self.loss, self.starts, self.groups = z["tokens"], z["loss"], z["starts"], z["groups"]
        least = int(np.diff(self.groups).min()) - 1
        if least < cut:
            raise SystemExit(f"{path}: a group has {least} episodes: it cannot be cut into {cut} parts")

    @staticmethod
    def _write(cache: str, path: str, tokenizer: tok.Tokenizer) -> None:
        tokens, loss, starts, groups = [], [], [0], [0]
        for group in tok.groups(path):
            ids: list[int] = []
            wanted: list[bool] = []
            begin = starts[-1]
            for segments in [[{"pieces": group["prefix"], "loss": False}], *group["episodes"]]:
                for run, flag in encode_segments(tokenizer, segments):
                    ids += run
                    wanted += [flag] * len(run)
                starts.append(begin + len(ids))
            tokens.append(np.array(ids, dtype=np.uint16))
            loss.append(np.array(wanted))
            groups.append(len(starts) - 1)
        np.savez(
            cache + ".new.npz",
            tokens=np.concatenate(tokens),
            loss=np.concatenate(loss),
            starts=np.array(starts),
            groups=np.array(groups),
        )
        os.replace(cache + ".new.npz", cache)  # never a partial file

    def __len__(self) -> int:
        return (len(self.groups) - 1) * self.cut

    def whole(self) -> list[np.ndarray]:
        """The tokens of each group of the file."""
        return [self.tokens[self.starts[begin] : self.starts[end]] for begin, end in zip(self.groups, self.groups[1:])]

    def runs(self, group: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Tokens and loss of the prefix and of the episodes of a group."""
        return [(self.tokens[e], self.loss[e]) for e in self.edges(group)]

    def size(self, group: int) -> int:
        return sum(int(e.stop - e.start) for e in self.edges(group))

    def edges(self, group: int) -> list[slice]:
        whole, part = divmod(group, self.cut)
        prefix, end = self.groups[whole], self.groups[whole + 1]
        return [slice(self.starts[i], self.starts[i + 1]) for i in (prefix, *range(prefix + 1 + part, end, self.cut))]

    def batch(self, groups: list[int], rename: Callable[[np.ndarray], np.ndarray] | None = None) -> Batch:
        """Packs groups. The common beginning of all prefixes becomes the root. rename may replace a group's tokens."""
        runs = [self.runs(g) for g in groups]
        if rename:
            runs = [renamed(group, rename) for group in runs]
        first = runs[0][0][0]
        shared = len(first) - 1  # a prefix keeps at least one token
        for (prefix, _), *_ in runs[1:]:
            size = min(shared, len(prefix) - 1)
            differ = np.flatnonzero(first[:size] != prefix[:size])
            shared = int(differ[0]) if len(differ) else size
        root = len(runs) > 1 and shared > 0
        nobody = [np.zeros(len(prefix), dtype=bool) for ((prefix, _), *_) in runs]
        nodes = [Node(first[:shared], nobody[0][:shared], -1, self.reader.read(first, nobody[0]))] if root else []
        for ((prefix, prefix_loss), *episodes), reads in zip(runs, nobody, strict=True):
            cut = shared if root else 0
            nodes.append(Node(prefix[cut:], prefix_loss[cut:], 0 if root else -1, self.reader.read(prefix, reads)))
            parent = len(nodes) - 1
            nodes += [
                Node(
                    tokens,
                    loss,
                    parent,
                    self.reader.read(np.concatenate((prefix, tokens)), np.concatenate((reads, loss))),
                )
                for tokens, loss in episodes
                if len(tokens)
            ]
        if rest := -sum(len(n.tokens) for n in nodes) % (8 * ROWS):
            nodes.append(Node(np.zeros(rest, dtype=np.int64), np.zeros(rest, dtype=bool), -1, fills=True))
        return pack(nodes)


def renamed(
    runs: list[tuple[np.ndarray, np.ndarray]], rename: Callable[[np.ndarray], np.ndarray]
) -> list[tuple[np.ndarray, np.ndarray]]:
    tokens = rename(np.concatenate([tokens for tokens, _ in runs]))
    ends = np.cumsum([len(loss) for _, loss in runs])
    return [(own, loss) for own, (_, loss) in zip(np.split(tokens, ends[:-1]), runs, strict=True)]


def encode_segments(tokenizer: tok.Tokenizer, segments: list[dict]) -> list[tuple[list[int], bool]]:
    """Tokens of segments. Adjacent segments with the same loss are one text.

    The text is cut where the model's part begins, since the server tokenizes the prompt alone.
    """
    merged: list[tuple[list, bool]] = []
    for segment in segments:
        if merged and merged[-1][1] == segment["loss"]:
            merged[-1][0].extend(segment["pieces"])
        else:
            merged.append((list(segment["pieces"]), bool(segment["loss"])))
    return [(tok.encode(tokenizer, pieces), loss) for pieces, loss in merged]

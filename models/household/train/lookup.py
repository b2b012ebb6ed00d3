"""How weights begin that find a tool by its description, and what teaches them to.

A prompt says of each tool its name and then what it is for. To call a tool whose name says nothing, a model has to find the
description of what it wants to do and to write the name that stood before it. That takes two heads that only make sense
together: at the tokens of a description one takes over the name, and where a name is to be written another one takes it
from the description that is meant. Left alone a small model finds neither. So such heads begin with matrices that hand a token
on through a room for it in what the layers pass along, and where they look is learned with losses of their own: the
first head should look at the name of the tool, the second at the description of the one that is called.
"""

import re

import numpy as np
import torch
from torch import Tensor

from copying import COULD_COPY, orthonormal, put

# As tokens are written in the vocabulary: a character for each byte, Ġ for the space and Ċ for the end of a line.
DECLARED = re.compile(r'"name":Ġ"([^"]+)",Ġ"description":Ġ"((?:[^"\\]|\\.)+)",Ġ"parameters"')
CALLED = re.compile(r'<tool_call>Ċ\{"name":Ġ"([^"])')

# Layer and head, from 0 on, of a model with six layers, of which the first two copy. What is to be done is known late, so
# that the last layer has a head that finds, too.
CARRY, FINDS = (2, 0), ((4, 2), (5, 0))
WRITES, COPIES = 2.0, 3.0  # how much the first head writes of a name, and the others of what they take over
DESCRIBED = 0.2  # weight of a token of a description, of which there are many, beside a call


class Reader:
    """Finds declarations of tools and calls in tokens."""

    def __init__(self, vocabulary: dict[str, int]):
        self.texts = sorted(vocabulary, key=vocabulary.get)

    def read(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each token of a tool's description, how far before it the tool's name begins, of all others 0, and of each
        token whether a name in a call begins with it."""
        texts = [self.texts[t] for t in tokens]
        begins = np.cumsum([0] + [len(text) for text in texts])
        text = "".join(texts)
        names, called = np.zeros(len(tokens), dtype=np.int64), np.zeros(len(tokens), dtype=bool)
        for m in DECLARED.finditer(text):
            name, begin, end = np.searchsorted(begins, (m.start(1), m.start(2), m.end(2)))
            names[begin:end] = np.arange(begin, end) - name
        called[np.searchsorted(begins, [m.start(1) for m in CALLED.finditer(text)])] = True
        return names, called


def fits(model) -> bool:
    s = model.shape
    return s.layers > FINDS[-1][0] and s.kv_heads > 1 and s.heads > FINDS[0][1]


@torch.no_grad()
def begin(model) -> None:
    """Sets what the heads read and write, not where they look."""
    if not fits(model):
        return
    size, group = model.shape.head_dim, model.shape.heads // model.shape.kv_heads
    common = model.embedding.mean(0)
    names, room = orthonormal(2 * size, common / common.norm()).split(size)
    for (layer, head), reads, writes in ((CARRY, names, WRITES * room), *((find, room, COPIES * names) for find in FINDS)):
        attn, first = model.blocks[layer].attn, head // group * group
        put(attn.v.weight[first // group * size:(first // group + 1) * size], reads)
        # The heads that read the same go on copying it.
        attn.out.weight[:, first * size:(first + group) * size] = COULD_COPY * reads.T.repeat(1, group)
        put(attn.out.weight[:, head * size:(head + 1) * size], writes.T)


def loss(batch, seen: dict[int, tuple[Tensor, Tensor]]) -> tuple[Tensor, int, int]:
    """What the heads lose by looking elsewhere: the sum over all tokens of descriptions and all calls of tools that have
    one. And how many of these calls there are, and in how many of them the last head looks mostly at the right tool, or at
    another one whose name begins with the same token. seen holds the queries and keys of their layers."""
    described = batch.names.nonzero()[:, 0]
    begins = described - batch.names[described]  # where the tools' names stand
    carried = scores(batch, seen[CARRY[0]], CARRY[1], described).log_softmax(-1).gather(1, begins[:, None])
    owned = torch.zeros_like(batch.tokens)
    owned[described] = batch.tokens[begins] + 1
    right = (owned == batch.tokens[batch.calls + 1][:, None] + 1) & behind(batch, batch.calls)
    calls, right = batch.calls[right.any(-1)], right[right.any(-1)]
    total, sure = -DESCRIBED * carried.sum(), 0
    for layer, head in FINDS:
        found = scores(batch, seen[layer], head, calls).log_softmax(-1).masked_fill(~right, float("-inf")).logsumexp(-1)
        total, sure = total - found.sum(), int((found.exp() > 0.5).sum())
    return total, len(calls), sure


def scores(batch, seen: tuple[Tensor, Tensor], head: int, at: Tensor) -> Tensor:
    """How much a head at some tokens looks at each, in float32; minus infinity where it can't."""
    q, k = seen  # of shape [key heads, tokens, query heads of each, size] and [key heads, tokens, size]
    group = q.shape[2]
    s = (q[head // group, at, head % group] @ k[head // group].T).float() * q.shape[-1]**-0.5
    return s.masked_fill(~behind(batch, at), float("-inf"))


def behind(batch, at: Tensor) -> Tensor:
    """Of some tokens and of all, whether the first can look at the second."""
    return batch.before[batch.nodes[at]][:, batch.nodes] & (batch.positions <= batch.positions[at][:, None])

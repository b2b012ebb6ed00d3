"""Weights to begin with that copy names.

What the model has to learn first is to continue a name that it reads as it was continued before. That takes two layers
that only make sense together: one that knows which tokens stood before each token, and one that finds where the last
token stood before and takes what followed it there (induction heads: Olsson et al., 2022, arXiv:2209.11895). To find
both at once takes a small model most of its training, so it begins with a rough form of them, and learns from there.
"""

import torch
from torch import Tensor

PAIRS = 6  # of a head, the fastest of the rotation, by which the first layer looks back
SHARPNESS, MILD = 1.7, 1.4  # of the attention in both layers and in all others: weight of the norms of queries and keys
# How much the first layer writes of earlier tokens, and the second of what it copies. Beside a smaller embedding that
# would
# be too much: all later layers have to be heard, and the optimizer changes matrices by so much a step, however small
# they are.
WRITES, COPIES = 1.0, 1.5
COULD_COPY = 0.25  # how much all other heads copy of what they look at, at first everything
REST = 0.1  # what remains of the random weights in the heads that are set


@torch.no_grad()
def begin(model) -> None:
    """Sets the heads that share the first layer's first key head, and one for each of the second layer's first two."""
    s = model.shape
    size, half, group = s.head_dim, s.head_dim // 2, s.heads // s.kv_heads
    std = model.embedding.std()
    # A part that all embeddings have in common is a constant for the heads that look only at the distance.
    common = torch.randn(s.width).sign() * std
    model.embedding += common
    unit = common / common.norm()

    # Subspaces that don't disturb each other: of a token, what is copied and what is compared, and where the same of
    # the
    # tokens one before, two before, ... stands.
    copied, content, *before = orthonormal(size + (1 + s.heads) * half, unit).split([size] + [half] * (1 + s.heads))

    # A head that has to find where to copy from, and how to copy, finds neither. These have only to look at the right
    # place.
    for block in model.blocks[1:]:
        for k in range(s.kv_heads):
            what = orthonormal(size, unit)
            put(block.attn.v.weight[k * size : (k + 1) * size], what)
            for head in range(k * group, (k + 1) * group):
                block.attn.out.weight[:, head * size : (head + 1) * size] += COULD_COPY * what.T

    first, second = model.blocks[0].attn, model.blocks[1].attn
    pairs = min(PAIRS, half // 2)
    speed = s.theta ** (-torch.arange(pairs, dtype=torch.float32) / half)
    key = torch.zeros(size)
    key[:pairs] = 1
    for k in range(s.kv_heads):
        keys = slice(k * size, (k + 1) * size)
        put(first.k.weight[keys], torch.outer(key, unit) / s.width**0.5)
        first.v.weight[keys] *= REST
        first.v.weight[keys.start : keys.start + half] += content
    for head in range(s.heads):
        query = torch.zeros(size)
        back = (head + 1) * speed
        query[:pairs], query[half : half + pairs] = back.cos(), -back.sin()
        rows = slice(head * size, (head + 1) * size)
        put(first.q.weight[rows], torch.outer(query, unit) / s.width**0.5)
        first.out.weight[:, rows] *= REST
        first.out.weight[:, rows.start : rows.start + half] += WRITES * before[head].T

    # The n-th compares the token n before this one with those n + 1 before the others.
    for n, (here, there) in enumerate(zip([content, *before], before[: s.kv_heads])):
        rows, keys = slice(n * group * size, (n * group + 1) * size), slice(n * size, (n + 1) * size)
        for weight, what in ((second.q.weight[rows], here), (second.k.weight[keys], there)):
            weight *= REST
            weight[slow(size)] += what
        second.v.weight[keys] = copied
        second.out.weight[:, n * group * size : (n + 1) * group * size] = COULD_COPY * copied.T.repeat(1, group)
        second.out.weight[:, rows] = COPIES * copied.T
    for block in model.blocks:
        for norm in (block.attn.q_norm, block.attn.k_norm):
            norm.weight.fill_(SHARPNESS if block.attn in (first, second) else MILD)


def slow(size: int) -> Tensor:
    """The half of a head's dimensions that the rotation hardly turns within a prompt: contents can be compared there at any distance."""
    quarter = size // 4
    return torch.cat((torch.arange(quarter, 2 * quarter), torch.arange(3 * quarter, 4 * quarter)))


def orthonormal(rows: int, across: Tensor) -> Tensor:
    """Random orthonormal rows that are orthogonal to a unit vector."""
    m = torch.randn(len(across), rows)
    return torch.linalg.qr(m - torch.outer(across, across @ m)).Q.T


def put(weight: Tensor, value: Tensor) -> None:
    weight *= REST
    weight += value

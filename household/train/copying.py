"""Initial weights with induction heads.

A model must first learn to copy names that it reads. That takes heads in two layers that are useless alone: one marks
each token with those before it; the other finds an earlier occurrence of the last token and copies what followed it
(induction heads: Olsson et al., 2022, arXiv:2209.11895). A small model needs most of its training to find both. So it
starts with a rough form of them.
"""

import torch
from torch import Tensor

PAIRS = 6  # the fastest rotary pairs of a head, with which the first layer finds earlier positions
SHARPNESS, MILD = 1.7, 1.4  # weights of the query and key norms: in these two layers, and in all others
# Scale of what the first layer writes about earlier tokens, and of what the second layer copies. With a smaller
# embedding these scales would drown the later layers: an optimizer's step has the same size for every matrix.
WRITES, COPIES = 1.0, 1.5
COULD_COPY = 0.25  # initial scale of copying in all other heads
REST = 0.1  # scale of the random weights that stay in the heads set here


@torch.no_grad()
def begin(model) -> None:
    """Initializes the query heads of the first layer's first key head, and one for each of the second layer's first two key heads."""
    s = model.shape
    size, half, group = s.head_dim, s.head_dim // 2, s.heads // s.kv_heads
    std = model.embedding.std()
    # A part common to all embeddings gives a constant to the heads that compare positions only.
    common = torch.randn(s.width).sign() * std
    model.embedding += common
    unit = common / common.norm()

    # Orthogonal subspaces: what is copied of a token, what is compared, and what is compared of the token one before,
    # two before, and so on.
    copied, content, *before = orthonormal(size + (1 + s.heads) * half, unit).split([size] + [half] * (1 + s.heads))

    # A head hardly learns where to copy from and how to copy at once. These can copy from the start.
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

    # Head n compares the token n before this one with the tokens n + 1 before the others.
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
    """The half of a head's dimensions with the slowest rotation, which compare contents at any distance."""
    quarter = size // 4
    return torch.cat((torch.arange(quarter, 2 * quarter), torch.arange(3 * quarter, 4 * quarter)))


def orthonormal(rows: int, across: Tensor) -> Tensor:
    """Random orthonormal rows that are orthogonal to a unit vector."""
    m = torch.randn(len(across), rows)
    return torch.linalg.qr(m - torch.outer(across, across @ m)).Q.T


def put(weight: Tensor, value: Tensor) -> None:
    weight *= REST
    weight += value

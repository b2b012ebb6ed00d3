"""Initial weights and losses for heads that find what a decision follows from.

A prompt gives each tool's name and then its description. To call a tool with a meaningless name, a model must find the
description that fits and write the name before it. That takes two heads that are useless alone. The first copies the
name to the tokens of the description. The second, where a name is to be written, attends to the description that fits.
To go to the room of a thing takes the same two heads, and a third that knows which thing was requested. A small model
finds none of them without help. So these heads start with matrices that pass a token on in a subspace of its own. Extra
losses teach them where to attend: reading.py says which tokens a decision follows from.
"""

import torch
from torch import Tensor

import reading
from copying import COULD_COPY, REST, orthonormal, put, slow
from packing import filled

# Each pair is a layer and a head, from 0, of a model with this many layers. The first two layers copy.
LAYERS = 6
CARRY = (2, 0)
# The task is known in late layers only, so the last layer has such a head too. They read what CARRY wrote.
FINDS = ((3, 0), (4, 0), (4, 2), (5, 0))
LOOKS = {  # the heads of each kind, and the weight of their loss
    reading.TOOL: (FINDS[2:], 1.0),
    reading.NEEDED: (((5, 1),), 0.5),
    reading.PARAMETER_OF: (FINDS[2:], 1.0),
    reading.DECLARED_BY: (((2, 1),), 0.1),
    reading.VALUE_OF: (FINDS[2:], 1.0),
    reading.FOUND: (FINDS[:2], 0.5),
    reading.ASKED: (((2, 2), (3, 2)), 0.5),
    reading.ROBOT: (((2, 3),), 0.5),
    reading.STANDING: (((3, 3),), 0.5),
    reading.HERE: (((4, 1),), 1.0),
    reading.HELD: (((3, 1),), 0.5),
    reading.STATE_OF: (((1, 3),), 0.1),
    reading.STATE: (((4, 3),), 0.5),
    reading.LISTED: (((5, 2),), 0.5),
}
WRITES, COPIES = 2.0, 3.0  # scale of the name that CARRY writes, and of what the other heads copy
# The loss of CARRY: its weight for each token, beside 1 for a decision's, and how many tokens of a batch it takes.
CARRIED, SOME = 0.02, 400


@torch.no_grad()
def begin(model) -> None:
    """Initializes what the heads copy, and how the heads that look for a name compare tokens."""
    if model.shape.layers != LAYERS:  # a small model of a test
        return
    size, half, group = model.shape.head_dim, model.shape.head_dim // 2, model.shape.heads // model.shape.kv_heads
    common = model.embedding.mean(0)
    # Subspaces: the token to copy, the name to which it belongs, the token to compare, and the requested thing and the
    # robot to compare.
    names, room, content, asked, robot = orthonormal(2 * size + 3 * half, common / common.norm()).split(
        [size, size, half, half, half]
    )
    reads = torch.cat((content, names[:half]))
    for layer, head, what in (
        (*CARRY, names),
        *((*find, room) for find in FINDS),
        *((*at, reads) for at in LOOKS[reading.ASKED][0]),
    ):
        attn, key = model.blocks[layer].attn, head // group
        put(attn.v.weight[key * size : (key + 1) * size], what)
        # All heads with the same value head copy it.
        attn.out.weight[:, key * group * size : (key + 1) * group * size] = COULD_COPY * what.T.repeat(1, group)
    for layer, head, part, writes in (
        (*CARRY, slice(size), WRITES * room),
        *((*find, slice(size), COPIES * names) for find in FINDS),
        *((*at, slice(half), WRITES * asked) for at in LOOKS[reading.ASKED][0]),
        *((*at, slice(half, size), WRITES * robot) for at in LOOKS[reading.ROBOT][0]),
        *((*at, slice(half), WRITES * robot) for at in LOOKS[reading.DECLARED_BY][0]),
    ):
        put(model.blocks[layer].attn.out.weight[:, head * size : (head + 1) * size][:, part], writes.T)
    for kind, here, there in ((reading.FOUND, asked, content), (reading.STANDING, robot, room[:half])):
        for layer, head in LOOKS[kind][0]:
            attn, key = model.blocks[layer].attn, head // group
            for weight, what in (
                (attn.q.weight[head * size : (head + 1) * size], here),
                (attn.k.weight[key * size : (key + 1) * size], there),
            ):
                weight *= REST
                weight[slow(size)] += what


def loss(batch, seen: dict[int, tuple[Tensor, Tensor]], seed: int) -> tuple[Tensor, dict[str, tuple[float, int]]]:
    """The loss of the heads' attention, summed over tokens, and for each kind the attention to the right tokens and the
    number of tokens and heads. seen holds the queries and keys of the layers. seed draws the tokens for the loss of
    CARRY."""
    taking = (batch.carry >= 0).nonzero()[:, 0]
    some = taking[torch.randperm(len(taking), generator=torch.Generator().manual_seed(seed))[:SOME].to(taking.device)]
    carried = (
        scores(batch, seen[CARRY[0]], CARRY[1], some).log_softmax(-1).gather(1, (some - batch.carry[some])[:, None])
    )
    total, right = (
        -carried.sum() * CARRIED * len(taking) / max(1, len(some)),
        {"belongs": (carried.exp().sum().item(), len(some))},
    )
    for kind, (heads, weight) in LOOKS.items():
        _, token, at = batch.looks[:, batch.looks[0] == reading.KINDS.index(kind)]
        tokens, row = token.unique(return_inverse=True)
        there = torch.zeros(len(tokens), len(batch.tokens), dtype=torch.bool, device=token.device)
        there[row, at] = True
        mass = 0.0
        for layer, head in heads if len(tokens) else ():
            found = (
                scores(batch, seen[layer], head, tokens)
                .log_softmax(-1)
                .masked_fill(~there, float("-inf"))
                .logsumexp(-1)
            )
            total, mass = total - weight * found.sum(), mass + found.exp().sum().item()
        right[kind] = mass, len(tokens) * len(heads)
    return total, right


def scores(batch, seen: tuple[Tensor, Tensor], head: int, at: Tensor) -> Tensor:
    """The attention scores of a head from some tokens to all, in float32; minus infinity where masked."""
    q, k = seen  # of shape [key heads, tokens, query heads of each, size] and [key heads, tokens, size]
    group = q.shape[2]
    s = (filled(q[head // group, at, head % group]) @ k[head // group].T)[: len(at)].float() * q.shape[-1] ** -0.5
    return s.masked_fill(~behind(batch, at), float("-inf"))


def behind(batch, at: Tensor) -> Tensor:
    """For some tokens and all tokens: whether the first can attend to the second."""
    return batch.before[batch.nodes[at]][:, batch.nodes] & (batch.positions <= batch.positions[at][:, None])

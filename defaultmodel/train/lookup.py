"""How weights begin that find what a decision follows from, and what teaches them to.

A prompt says of each tool its name and then what it is for. To call a tool whose name says nothing, a model has to find the
description of what it wants to do and to write the name that stood before it. That takes two heads that only make sense
together: at the tokens of a description one takes over the name, and where a name is to be written another one takes it
from the description that is meant. To go to the room where a thing was seen takes the same two, and one more that knows which thing
somebody asked for. Left alone a small model finds none of them. So such heads begin with matrices that hand a token
on through a room for it in what the layers pass along, and where they look is learned with losses of their own: reading.py says
which tokens a decision follows from.
"""

import torch
from torch import Tensor

import reading
from copying import COULD_COPY, REST, orthonormal, put, slow

# Layer and head, from 0 on, of a model with so many layers, of which the first two copy. Further ones repeat the last
# ones of these.
LAYERS = 6
CARRY = (2, 0)
# What is to be done is known late, so that the last layer has a head that finds, too. These take over what CARRY did.
FINDS = ((3, 0), (4, 0), (4, 2), (5, 0))
LOOKS = {  # heads that should look there, and the weight of their losses
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
WRITES, COPIES = 2.0, 3.0  # how much the first head writes of a name, and the others of what they take over
# weight of a token that belongs to a name, of which there are many, beside a decision's; and how many of them are
# looked at
CARRIED, SOME = 0.02, 400


def fits(model) -> bool:
    s = model.shape
    return (
        LAYERS <= s.layers <= 2 * LAYERS
        and s.kv_heads > 1
        and s.heads > max(head for heads, _ in LOOKS.values() for _, head in heads)
    )


def of(heads: tuple, layers: int) -> tuple:
    """The heads of a model with so many layers: these, and the same ones of the layers that repeat theirs."""
    more = layers - LAYERS
    return (*heads, *((layer + more, head) for layer, head in heads if layer + more >= LAYERS)) if more else heads


@torch.no_grad()
def begin(model) -> None:
    """Sets what the heads read and write, and by what those compare tokens that look for a name; not where the others look."""
    if not fits(model):
        return
    size, half, group = model.shape.head_dim, model.shape.head_dim // 2, model.shape.heads // model.shape.kv_heads
    common = model.embedding.mean(0)
    # Of a token: itself, the name that it belongs to, itself again to be compared, and the same of what somebody asked
    # for and of the robot.
    names, room, content, asked, robot = orthonormal(2 * size + 3 * half, common / common.norm()).split(
        [size, size, half, half, half]
    )
    reads = torch.cat((content, names[:half]))
    finds = of(FINDS, model.shape.layers)
    for layer, head, what in (
        (*CARRY, names),
        *((*find, room) for find in finds),
        *((*at, reads) for at in LOOKS[reading.ASKED][0]),
    ):
        attn, key = model.blocks[layer].attn, head // group
        put(attn.v.weight[key * size : (key + 1) * size], what)
        # All heads that read the same copy it.
        attn.out.weight[:, key * group * size : (key + 1) * group * size] = COULD_COPY * what.T.repeat(1, group)
    for layer, head, part, writes in (
        (*CARRY, slice(size), WRITES * room),
        *((*find, slice(size), COPIES * names) for find in finds),
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
    """What the heads lose by looking elsewhere, a sum over the tokens that should look at something; and for each kind of
    them how much of their attention was right, and of how many tokens and heads. seen holds the queries and keys of their layers;
    seed chooses among the many tokens that belong to a name."""
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
        heads = of(heads, len(seen))
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
    """How much a head at some tokens looks at each, in float32; minus infinity where it can't."""
    q, k = seen  # of shape [key heads, tokens, query heads of each, size] and [key heads, tokens, size]
    group = q.shape[2]
    s = (q[head // group, at, head % group] @ k[head // group].T).float() * q.shape[-1] ** -0.5
    return s.masked_fill(~behind(batch, at), float("-inf"))


def behind(batch, at: Tensor) -> Tensor:
    """Of some tokens and of all, whether the first can look at the second."""
    return batch.before[batch.nodes[at]][:, batch.nodes] & (batch.positions <= batch.positions[at][:, None])

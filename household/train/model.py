"""Qwen 3 as llama.cpp runs it, over packed trees of tokens."""

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import copying
import lookup
from packing import ROWS, Batch, filled

# For each layer its queries and keys, as lookup.scores takes them. The last layer has queries for selected rows only.
Seen = dict[int, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Shape:
    """Sizes of a model."""

    vocabulary: int = 4096
    width: int = 256
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    ffn: int = 768
    theta: float = 1000000.0
    epsilon: float = 1e-6
    context: int = 4096

    def dict(self) -> dict:
        return asdict(self)


class Linear(nn.Linear):
    """A float32 matrix that is multiplied in the type of its input."""

    def __init__(self, inputs: int, outputs: int, std: float):
        super().__init__(inputs, outputs, bias=False)
        nn.init.normal_(self.weight, std=std)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype))


# Element-wise operations are compiled into single loops, for a quarter more tokens/s.
fused = torch.compile(dynamic=True)


@fused
def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], weight.to(x.dtype), epsilon)


@fused
def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


class Norm(nn.Module):
    def __init__(self, size: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.epsilon)


@fused
def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of the neox kind: the halves of a head are the pairs."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attend(torch.autograd.Function):
    """Attention by plain matrix products: on CPUs three times as fast as PyTorch's fused one with a mask. The mask is
    filled up in both dimensions."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.scale, ctx.sizes = scale, (q.shape[1], k.shape[1])
        q, k, v = map(filled, (q, k, v))
        p = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=scale).softmax(-1)
        ctx.save_for_backward(q, k, v, p)
        return (p @ v)[:, : ctx.sizes[0]]

    @staticmethod
    def backward(ctx, grad: Tensor):
        (q, k, v, p), (asked, every), grad = ctx.saved_tensors, ctx.sizes, filled(grad)
        scores = torch._softmax_backward_data(grad @ v.transpose(1, 2), p, -1, p.dtype) * ctx.scale
        of_k, of_v = scores.transpose(1, 2) @ q, p.transpose(1, 2) @ grad
        return (scores @ k)[:, :asked], of_k[:, :every], of_v[:, :every], None, None


@dataclass
class Queries:
    """The tokens whose outputs a layer computes; the keys are always those of all tokens."""

    rows: Tensor | None  # ascending indices without repeats; None: all
    sizes: list[int]  # number of tokens in each node
    group: int  # query heads of a key head, which are stacked
    masks: list[Tensor]  # for each node, what is added to the scores of its queries; filled up in both dimensions
    cos: Tensor
    sin: Tensor

    def of(self, x: Tensor) -> Tensor:
        return x if self.rows is None else x[self.rows]

    def only(self, rows: Tensor, batch: Batch) -> "Queries":
        """The given rows of a selection of all tokens."""
        sizes = torch.bincount(batch.nodes[rows], minlength=len(self.sizes)).tolist()
        starts = torch.tensor([0, *self.sizes[:-1]]).cumsum(0).tolist()
        masks = [
            filled(mask[: self.group * size].unflatten(0, (size, self.group))[own - start].flatten(0, 1))
            for mask, size, own, start in zip(self.masks, self.sizes, rows.split(sizes), starts, strict=True)
        ]
        return Queries(rows, sizes, self.group, masks, self.cos[rows], self.sin[rows])


class Attention(nn.Module):
    def __init__(self, s: Shape, std: float):
        super().__init__()
        self.shape = s
        self.q = Linear(s.width, s.heads * s.head_dim, std)
        self.k = Linear(s.width, s.kv_heads * s.head_dim, std)
        self.v = Linear(s.width, s.kv_heads * s.head_dim, std)
        self.out = Linear(s.heads * s.head_dim, s.width, 0)  # zero at first, so that a new block changes nothing
        self.q_norm = Norm(s.head_dim, s.epsilon)
        self.k_norm = Norm(s.head_dim, s.epsilon)

    def forward(self, x: Tensor, batch: Batch, every: Queries, asked: Queries, seen: Seen | None, layer: int) -> Tensor:
        s = self.shape
        q = rotate(self.q_norm(self.q(asked.of(x)).unflatten(-1, (s.heads, s.head_dim))), asked.cos, asked.sin)
        k = rotate(self.k_norm(self.k(x).unflatten(-1, (s.kv_heads, s.head_dim))), every.cos, every.sin)
        v = self.v(x).unflatten(-1, (s.kv_heads, s.head_dim))
        # Query heads that share a key head are stacked below each other: larger products, no copies of keys.
        # Splitting once keeps the backward pass to one concatenation.
        group = s.heads // s.kv_heads
        q = q.view(-1, s.kv_heads, group, s.head_dim).permute(1, 0, 2, 3)
        k, v = k.transpose(0, 1), v.transpose(0, 1)
        if seen is not None:
            seen[layer] = (
                (
                    q
                    if asked.rows is None
                    else q.new_zeros(s.kv_heads, len(x), group, s.head_dim).index_copy(1, asked.rows, q)
                ),
                k,
            )
        qs, (ks, vs) = q.split(asked.sizes, dim=1), (t.split(batch.sizes, dim=1) for t in (k, v))
        outs = []
        for own, path, mask in zip(qs, batch.paths, asked.masks, strict=True):
            keys = ks[path[0]] if len(path) == 1 else torch.cat([ks[i] for i in path], dim=1)
            values = vs[path[0]] if len(path) == 1 else torch.cat([vs[i] for i in path], dim=1)
            out = Attend.apply(own.flatten(1, 2), keys, values, mask, s.head_dim**-0.5)
            outs.append(out.unflatten(1, (-1, group)))
        return self.out(torch.cat(outs, dim=1).permute(1, 0, 2, 3).flatten(1))


class Block(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        std = 1 / math.sqrt(s.width)
        self.attn_norm = Norm(s.width, s.epsilon)
        self.attn = Attention(s, std)
        self.ffn_norm = Norm(s.width, s.epsilon)
        self.gate = Linear(s.width, s.ffn, std)
        self.up = Linear(s.width, s.ffn, std)
        self.down = Linear(s.ffn, s.width, 0)

    def forward(self, x: Tensor, batch: Batch, every: Queries, asked: Queries, *rest) -> Tensor:
        x = asked.of(x) + self.attn(self.attn_norm(x), batch, every, asked, *rest)
        h = self.ffn_norm(x)
        return x + self.down(swiglu(self.gate(h), self.up(h)))


# Larger than the blocks' outputs in the first steps, so that tokens stay distinct. OUT_NORM compensates for it.
EMBEDDING_STD, OUT_NORM = 0.5, 0.175


class Qwen3(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.randn(shape.vocabulary, shape.width) * EMBEDDING_STD)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width, shape.epsilon)
        nn.init.constant_(self.norm.weight, OUT_NORM)
        self.ahead: Tensor | None = None
        copying.begin(self)
        lookup.begin(self)

    def queries(self, batch: Batch, dtype: torch.dtype) -> Queries:
        """The selection of all tokens of a batch."""
        half, group = self.shape.head_dim // 2, self.shape.heads // self.shape.kv_heads
        inverse = self.shape.theta ** (-torch.arange(half, device=batch.tokens.device, dtype=torch.float32) / half)
        angle = (batch.positions[:, None].float() * inverse)[:, None, :]
        ends = [sum(batch.sizes[i] for i in path) for path in batch.paths]
        causal = self.causal(max(ends), group, dtype, batch.tokens.device)
        masks = [
            filled(F.pad(causal[(end - size) * group : end * group, :end], (0, -end % ROWS), value=float("-inf")))
            for end, size in zip(ends, batch.sizes, strict=True)
        ]
        return Queries(None, batch.sizes, group, masks, angle.cos().to(dtype), angle.sin().to(dtype))

    def causal(self, size: int, group: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The causal mask, with each row repeated for the query heads of a key head. It is kept, since building it for each
        batch took a fifteenth of the time."""
        if self.ahead is None or self.ahead.shape[1] < size or self.ahead.dtype != dtype or self.ahead.device != device:
            self.ahead = (
                torch.full((size, size), float("-inf"), dtype=dtype, device=device)
                .triu(1)
                .repeat_interleave(group, dim=0)
            )
        return self.ahead

    def forward(self, batch: Batch, dtype: torch.dtype, rows: Tensor, seen: Seen | None = None) -> Tensor:
        """Logits in float32 of the tokens at rows. The queries and keys of each layer are stored in seen."""
        every = self.queries(batch, dtype)
        asked, places = rows.unique(return_inverse=True)
        x = F.embedding(batch.tokens, self.embedding).to(dtype)
        for layer, block in enumerate(self.blocks):
            last = layer == len(self.blocks) - 1  # its outputs at other tokens are never read
            x = block(x, batch, every, every.only(asked, batch) if last else every, seen, layer)
        return F.linear(self.norm(x[places]), self.embedding.to(dtype)).float()

    def loss(
        self, batch: Batch, dtype: torch.dtype, others: Tensor | None = None, seen: Seen | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The sum of the targets' losses, for each target whether it is the most likely token, and the sum of the
        losses at the other rows, whose targets are the next tokens."""
        rows, targets, count = batch.rows, batch.targets, len(batch.rows)
        if others is not None:
            rows, targets = torch.cat((rows, others)), torch.cat((targets, batch.tokens[others + 1]))
        logits = self(batch, dtype, rows, seen)
        right = logits[:count].detach().argmax(-1) == batch.targets
        losses = F.cross_entropy(logits, targets, reduction="none")
        return losses[:count].sum(), right, losses[count:].sum()

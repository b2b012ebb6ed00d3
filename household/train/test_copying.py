"""Run with `python -m unittest` in this directory."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F

import lookup
import reading
from model import Qwen3, Shape
from packing import Node, pack
from test_case import Case


class Copying(Case):
    def heads(self):
        """A model with its initial weights, and the product of a head's value and output matrices."""
        torch.manual_seed(1)
        model = Qwen3(Shape())
        of = lambda head: slice(head * 64, head * 64 + 64)
        return (
            model,
            lambda layer, head: (
                model.blocks[layer].attn.out.weight[:, of(head)] @ model.blocks[layer].attn.v.weight[of(head // 2)]
            ),
        )

    def test_heads_without_a_task_copy_at_first(self):
        model, through = self.heads()
        taken = {
            lookup.CARRY,
            *lookup.FINDS,
            *(at for kind in (reading.ASKED, reading.ROBOT, reading.DECLARED_BY) for at in lookup.LOOKS[kind][0]),
        }
        for at in set(itertools.product(range(2, 6), range(4))) - taken:
            self.assertGreater(through(*at).trace().item() / 64, 0.2, at)

    def test_initial_heads_pass_names_on(self):
        model, through = self.heads()
        tokens = torch.arange(9, 1009)
        for find in lookup.FINDS:
            handed = model.embedding[tokens] @ (through(*find) @ through(*lookup.CARRY)).T
            likely = (handed @ model.embedding.T).argmax(-1)
            self.assertGreater((likely == tokens).float().mean(), 0.9)

    def test_initial_heads_find_requested_names_and_rooms_of_robots(self):
        model, through = self.heads()
        names = model.embedding[9:1009]
        none = torch.eye(len(names[0]))
        for kind, asks, there in (
            (reading.FOUND, lookup.LOOKS[reading.ASKED][0][0], none),
            (reading.STANDING, lookup.LOOKS[reading.ROBOT][0][0], through(*lookup.CARRY)),
        ):
            for layer, head in lookup.LOOKS[kind][0]:
                attn = model.blocks[layer].attn
                query = names @ through(*asks).T @ attn.q.weight[head * 64 : head * 64 + 64].T
                key = names @ there.T @ attn.k.weight[head // 2 * 64 : head // 2 * 64 + 64].T
                same = (F.normalize(query) @ F.normalize(key).T).argmax(-1) == torch.arange(len(names))
                self.assertGreater(same.float().mean(), 0.9, kind)

    def test_initial_model_copies_what_followed_a_token_earlier(self):
        torch.manual_seed(1)
        model = Qwen3(Shape())
        words = [torch.randint(9, 4096, (3,)) for _ in range(60)]
        tokens = torch.cat([words[i] for i in torch.randint(0, 60, (300,))]).numpy()
        batch = pack([Node(tokens, np.arange(len(tokens)) > 0, -1)])
        with torch.no_grad():
            logits = model(batch, torch.float32, batch.rows)
        logits[torch.arange(len(logits)), batch.tokens[batch.rows]] = 0  # no token comes twice in a row
        right = logits.argmax(-1) == batch.targets
        inside = (np.arange(1, len(tokens)) % 3 != 0) & (np.arange(1, len(tokens)) > 450)  # of words seen before
        self.assertGreater(right.numpy()[inside].mean(), 0.1)  # 0.23; by chance 0.0002

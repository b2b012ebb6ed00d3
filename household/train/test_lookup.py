"""Run with `python -m unittest` in this directory."""

import contextlib
import io
import math
import unittest
import unittest.mock

import torch

import lookup
import reading
import train
from test_case import Case


class Lookup(Case):
    def conversation(self, batch, token):
        """For each token of a batch, whether the given token can attend to it."""
        return batch.before[batch.nodes[token]][batch.nodes] & (batch.positions <= batch.positions[token])

    def test_calls_look_at_their_tools_description_in_their_conversation(self):
        batch = self.data.batch([0, 1, 2])
        calls = set((batch.tokens == self.tokenizer.token_to_id("<tool_call>")).nonzero()[:, 0].tolist())
        kind, token, at = batch.looks
        found = set()
        for call, described in zip(
            token[kind == reading.KINDS.index(reading.TOOL)], at[kind == reading.KINDS.index(reading.TOOL)]
        ):
            self.assertTrue(self.conversation(batch, call)[described])
            if batch.positions[described] == 0:  # a reply needs no tool
                self.assertNotIn(int(call) + 1, calls)
            elif int(call) + 1 not in calls:  # this row decides which tool
                self.assertEqual(batch.tokens[described - batch.carry[described]], batch.tokens[call + 1])
                found.add(max(c for c in calls if c < call))
        self.assertEqual(found, calls)
        for call, value in zip(
            token[kind == reading.KINDS.index(reading.VALUE_OF)], at[kind == reading.KINDS.index(reading.VALUE_OF)]
        ):
            self.assertTrue(self.conversation(batch, call)[value])
            self.assertEqual(batch.tokens[value], batch.tokens[call + 1])

    @unittest.mock.patch("lookup.SOME", 10**9)
    def test_lookup_loss_counts_attention_to_wrong_tokens_of_a_conversation(self):
        batch = self.data.batch([0, 1, 2])
        count, size = len(batch.tokens), 8
        belongs = (batch.carry >= 0).nonzero()[:, 0]
        right = {reading.KINDS[kind]: {} for kind in batch.looks[0].unique()}
        for kind, token, at in batch.looks.T.tolist():
            right[reading.KINDS[kind]].setdefault(token, []).append(at)
        self.assertLess({reading.TOOL, reading.ASKED, reading.VALUE_OF}, set(right) | {""})
        blind = {layer: (torch.zeros(2, count, 2, size), torch.zeros(2, count, size)) for layer in range(6)}
        want = sum(lookup.CARRIED * math.log(self.conversation(batch, at).sum()) for at in belongs)
        for kind, looks in right.items():
            heads, weight = lookup.LOOKS[kind]
            want += sum(
                len(heads) * weight * math.log(self.conversation(batch, token).sum() / len(at))
                for token, at in looks.items()
            )
        loss, seen = lookup.loss(batch, blind, 1)
        self.assertAlmostEqual(loss.item(), want, delta=1e-4 * want)

        # Each token's key is a unit vector. The queries that should attend to it are the same vector, in the heads of
        # their kind.
        eye = 30 * torch.eye(count)
        sharp = {layer: (eye[None, :, None].repeat(2, 1, 2, 1), eye[None].repeat(2, 1, 1)) for layer in range(6)}
        layer, head = lookup.CARRY
        sharp[layer][0][head // 2, belongs, head % 2] = eye[belongs - batch.carry[belongs]]
        for kind, looks in right.items():
            for layer, head in lookup.LOOKS[kind][0]:
                for token, at in looks.items():
                    sharp[layer][0][head // 2, token, head % 2] = eye[at].sum(0)
        loss, seen = lookup.loss(batch, sharp, 1)
        self.assertLess(loss.item(), 1e-5 * batch.looks.shape[1])
        self.assertEqual(seen["belongs"][1], len(belongs))
        for kind, looks in right.items():
            mass, looked = seen[kind]
            self.assertEqual(looked, len(looks) * len(lookup.LOOKS[kind][0]))
            self.assertAlmostEqual(mass / looked, 1, places=4)

    def test_lookup_loss_changes_the_training(self):
        none = lambda batch, seen, step: (torch.zeros(()), {})
        weights = []
        for name, loss in (("without", none), ("with", lookup.loss)):
            trainer = train.Trainer(self.arguments(name + "-look-up", "--steps", "1"))
            with contextlib.redirect_stdout(io.StringIO()), unittest.mock.patch("lookup.loss", loss):
                trainer.run()
            weights.append(trainer.model.blocks[lookup.CARRY[0]].attn.k.weight)
        self.assertFalse(torch.equal(*weights))

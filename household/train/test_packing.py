"""Run with `python -m unittest` in this directory."""

import os

import numpy as np
import torch

import tokenizer as tok
import train
from model import Qwen3
from packing import ROWS, Data, Node, pack
from test_case import Case, flat


class Packing(Case):
    def test_data_is_encoded_again_for_another_vocabulary(self):
        path = os.path.join(self.directory.name, "other.json")
        tok.train(tok.texts(self.jsonl, 10), 400).save(path)
        other = Data(self.jsonl, path)
        self.assertLess(other.tokens.max(), 400)
        self.assertGreater(self.data.tokens.max(), 400)
        again = Data(self.jsonl, self.vocabulary)
        np.testing.assert_array_equal(again.tokens, self.data.tokens)

    def test_packed_batch_has_the_loss_and_gradients_of_single_episodes(self):
        batch = self.data.batch([0, 1, 2])
        self.assertEqual(len(batch.paths[-2]), 3)  # what all share, the group, the episode
        self.assertEqual((len(batch.tokens) % ROWS, batch.paths[-1]), (0, [len(batch.sizes) - 1]))  # filled up
        together, *_ = self.model.loss(batch, torch.float32)
        self.model.zero_grad()
        together.backward()
        gradients = [p.grad.clone() for p in self.model.parameters()]
        self.model.zero_grad()
        alone, targets, decisions = 0.0, 0, 0
        for g in range(3):
            (prefix, unwanted), *episodes = self.data.runs(g)
            for tokens, loss in episodes:
                single = pack([Node(np.concatenate([prefix, tokens]), np.concatenate([unwanted, loss]), -1)])
                value, *_ = self.model.loss(single, torch.float32)
                value.backward()
                alone += value.item()
                targets += len(single.targets)
                decisions += single.count
        self.assertEqual((len(batch.targets), batch.count), (targets, decisions))
        self.assertAlmostEqual(together.item() / targets, alone / targets, delta=1e-4)
        for a, p in zip(gradients, self.model.parameters()):
            torch.testing.assert_close(a, p.grad, rtol=1e-3, atol=1e-3)

    def test_last_layer_computes_selected_rows_as_in_all_rows(self):
        torch.manual_seed(1)
        model = Qwen3(self.model.shape)
        batch = self.data.batch([0, 1, 2])
        rows = torch.tensor([len(batch.tokens) - 1, 40, 3, 40])  # in any order, and some twice
        all_seen, seen = {}, {}
        with torch.no_grad():
            for p in model.parameters():  # blocks begin by adding nothing
                p.add_(0.2 * torch.randn_like(p))
            every, x = model.queries(batch, torch.float32), model.embedding[batch.tokens]
            for layer, block in enumerate(model.blocks):
                x = block(x, batch, every, every, all_seen, layer)
            logits = model(batch, torch.float32, rows, seen)
        torch.testing.assert_close(logits, (model.norm(x) @ model.embedding.T)[rows], rtol=1e-4, atol=1e-4)
        for layer in all_seen:
            for some, of_all in zip(seen[layer], all_seen[layer]):
                torch.testing.assert_close(some[:, rows], of_all[:, rows], rtol=1e-4, atol=1e-4)

    def test_parts_of_a_group_hold_all_its_episodes(self):
        parts = Data(self.jsonl, self.vocabulary, 2)
        self.assertEqual(len(parts), 2 * len(self.data))
        for g in range(len(self.data)):
            (prefix, _), *episodes = self.data.runs(g)
            first, second = parts.runs(2 * g), parts.runs(2 * g + 1)
            self.assertEqual([len(first), len(second)], [3, 2])  # three episodes
            for (same, _), *_ in (first, second):
                np.testing.assert_array_equal(same, prefix)
            for (tokens, _), (same, _) in zip(episodes, (first[1], second[1], first[2]), strict=True):
                np.testing.assert_array_equal(tokens, same)
            self.assertEqual(parts.size(2 * g) + parts.size(2 * g + 1), self.data.size(g) + len(prefix))

    def test_a_group_with_fewer_episodes_than_parts_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "3 episodes: it cannot be cut into 4 parts"):
            Data(self.jsonl, self.vocabulary, 4)

    def test_only_loss_segments_are_predicted(self):
        batch = self.data.batch([0])
        wanted = [
            p
            for g in list(tok.groups(self.jsonl))[:1]
            for e in g["episodes"]
            for s in e
            if s["loss"]
            for p in s["pieces"]
        ]
        self.assertEqual(self.tokenizer.decode(batch.targets.tolist(), skip_special_tokens=False), flat(wanted))
        ends = batch.targets == self.tokenizer.token_to_id("<|im_end|>")
        self.assertEqual(int(ends.sum()), batch.count)  # each decision ends once
        self.assertTrue((batch.decisions[1:] - batch.decisions[:-1] == ends[:-1].long()).all())

    def test_every_group_comes_once_an_epoch(self):
        everything = sum(map(self.data.size, range(len(self.data))))
        first = next(train.steps_of(self.data, 2 * everything, 1))
        self.assertEqual(sorted(first), [0, 0, 1, 1, 2, 2])
        steps = train.steps_of(self.data, 1, 1)
        self.assertEqual(sorted(next(steps)[0] for _ in range(3)), [0, 1, 2])

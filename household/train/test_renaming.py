"""Run with `python -m unittest` in this directory."""

import contextlib
import io
import unittest.mock

import numpy as np
import torch

import train
from renaming import Renamer
from test_case import Case


class Renaming(Case):
    def words(self, renamer, tokens):
        return {tuple(tokens[b : b + n].tolist()) for b, n, _ in zip(*renamer.words(tokens))}

    def test_names_are_whole_words_that_few_groups_have(self):
        ids = lambda text: np.array(self.tokenizer.encode(text).ids)
        renamer = Renamer(
            self.tokenizer, [ids("Take bofu to the kitchen, Bofu."), *[ids("Take the kitchen to the hall.")] * 60]
        )
        got = renamer.words(ids("Take bofu to kitchen, Tale3x."))
        names = np.isin(got[2], renamer.names)
        letters = [
            "".join(self.tokenizer.id_to_token(t) for t in ids("Take bofu to kitchen, Tale3x.")[b : b + n])
            for b, n, _ in zip(*got)
        ]
        self.assertIn("bofu", letters)
        self.assertNotIn("ale", letters)  # only a part of a word
        self.assertEqual([w for w, name in zip(letters, names) if name], ["bofu"])

    def test_renamed_group_differs_in_its_names_only(self):
        groups = self.data.whole()
        renamer = Renamer(self.tokenizer, [groups[0]] + 50 * groups[1:])
        rename = lambda tokens: renamer(tokens, np.random.default_rng(1))
        was, now = self.data.batch([0]), self.data.batch([0], rename)
        for same in ("positions", "rows", "decisions", "carry", "looks"):
            torch.testing.assert_close(getattr(now, same), getattr(was, same))
        a, b = was.tokens.numpy(), now.tokens.numpy()
        at, sizes, numbers = renamer.words(a)
        named = np.isin(numbers, renamer.names)
        inside = np.zeros(len(a), dtype=bool)
        stand_in = {}
        for begin, size, name in zip(at, sizes, named):
            inside[begin : begin + size] = name
            if name:
                word = tuple(b[begin : begin + size].tolist())
                self.assertEqual(stand_in.setdefault(tuple(a[begin : begin + size].tolist()), word), word)
                text = "".join(self.tokenizer.id_to_token(t) for t in word)
                # the server would tokenize it the same way
                self.assertEqual(self.tokenizer.encode(" " + text).ids[1:], list(word))
        self.assertGreater(len(stand_in), 3)
        self.assertEqual(len(set(stand_in.values())), len(stand_in))
        self.assertFalse(set(stand_in.values()) & self.words(renamer, a))  # no other word of the group
        np.testing.assert_array_equal(b[~inside], a[~inside])

    def test_renaming_keeps_singular_and_plural(self):
        ids = lambda text: np.array(self.tokenizer.encode(text).ids)
        said = "Where are the slippers? The glass is in the kabos."
        renamer = Renamer(self.tokenizer, [ids(said), *[ids("Where are the? The is in the.")] * 60])
        others = set()
        for seed in range(20):
            now = (
                self.tokenizer.decode(renamer(ids(said), np.random.default_rng(seed)).tolist())
                .replace("?", "")
                .replace(".", "")
                .split()
            )
            others.add(now[3])
            self.assertEqual(
                [word.endswith("s") and not word.endswith("ss") for word in (now[3], now[5], now[-1])],
                [True, False, True],
                now,
            )
        self.assertGreater(len(others), 5)

    def test_share_of_renamed_groups_changes_the_training(self):
        weights = []
        for i, share in enumerate((0, 1, 1)):
            with (
                unittest.mock.patch.multiple(train, RENAME=share, BATCH=5000),
                contextlib.redirect_stdout(io.StringIO()),
            ):
                trainer = train.Trainer(self.arguments(f"rename{i}", "--steps", "1"))
                groups = self.data.whole()
                trainer.renamer = Renamer(self.tokenizer, [groups[0]] + 50 * groups[1:])
                trainer.run()
            weights.append(trainer.model.embedding)
        self.assertFalse(torch.equal(weights[0], weights[1]))
        torch.testing.assert_close(weights[1], weights[2], rtol=0, atol=1e-5)

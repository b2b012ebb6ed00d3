"""What the tests of this directory share."""

import os
import tempfile
import unittest
import unittest.mock

import torch

import test_fake as fake
import tokenizer as tok
import train
from model import Qwen3, Shape
from packing import Data

torch.set_num_threads(1)  # threads of a small model wait for each other

SMALL = dict(width=32, layers=2, heads=4, kv_heads=2, head_dim=8, ffn=64)


def flat(pieces):
    """The text of pieces."""
    return "".join(value for _, value in pieces)


class Case(unittest.TestCase):
    """A test with a small data set, its vocabulary and a small model."""

    @classmethod
    def setUpClass(cls):
        cls.enterClassContext(unittest.mock.patch.multiple(train, BATCH=500, CUT=2))
        cls.directory = tempfile.TemporaryDirectory()
        at = lambda name: os.path.join(cls.directory.name, name)
        cls.jsonl, cls.vocabulary = at("data.jsonl"), at("tokenizer.json")
        fake.write(cls.jsonl, groups=3, seed=1, episodes=3, turns=2)
        cls.tokenizer = tok.train(tok.texts(cls.jsonl, 10), 600)
        cls.tokenizer.save(cls.vocabulary)
        cls.data = Data(cls.jsonl, cls.vocabulary)
        torch.manual_seed(1)
        cls.model = Qwen3(Shape(vocabulary=cls.tokenizer.get_vocab_size(), **SMALL))

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def arguments(self, out, *more):
        return train.arguments(
            [
                "--data",
                self.jsonl,
                "--eval",
                self.jsonl,
                "--tokenizer",
                self.vocabulary,
                "--threads",
                "1",
                "--cool",
                "0",
                "--out",
                os.path.join(self.directory.name, out),
                *more,
            ]
        )

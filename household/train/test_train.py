"""Run with `python -m unittest` in this directory."""

import contextlib
import io
import math
import os
import unittest.mock
from collections import Counter

import torch

import export
import train
from test_case import Case


class Train(Case):
    @unittest.mock.patch("train.SAVE", 0)
    def test_nan_loss_ends_the_run_and_keeps_the_checkpoint(self):
        trainer = train.Trainer(self.arguments("nan", "--steps", "3"))
        learn = trainer.learn
        trainer.learn = lambda *of: Counter(learn(*of) | ({"loss": math.nan} if trainer.step == 1 else {}))
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaisesRegex(SystemExit, "step 2: the loss is nan"):
            trainer.run()
        self.assertEqual(train.Trainer(self.arguments("nan", "--steps", "3")).step, 1)

    def test_text_that_fills_the_batch_up_is_not_learned(self):
        batch = self.data.batch([0])
        self.assertLess(batch.used, len(batch.tokens))
        learned = train.Trainer(self.arguments("others", "--steps", "3")).others(
            batch, torch.Generator().manual_seed(1)
        )
        self.assertTrue(0 < learned.max() < batch.used)

    def test_first_lessons_become_rarer_and_end(self):
        chosen = [train.lessons(step, 100, 1) for step in range(200)]
        self.assertTrue(all(chosen[:50]))
        self.assertTrue(sum(chosen[50:75]) > sum(chosen[75:100]) > 0)
        self.assertFalse(any(chosen[100:]))
        self.assertFalse(train.lessons(0, 0, 1))

    @unittest.mock.patch.multiple(train, AVERAGE=2, EVALUATE=12)
    def test_weights_before_the_cooling_are_averaged(self):
        with contextlib.redirect_stdout(io.StringIO()):
            t = train.Trainer(self.arguments("average", "--steps", "12"))
            seen = []
            learn, measure = t.learn, t.measure
            t.learn = lambda *a: (learn(*a), seen.append([p.detach().clone() for p in t.model.parameters()]))[0]
            t.measure = lambda: (measured.append([p.detach().clone() for p in t.model.parameters()]), measure())[1]
            measured = []
            t.run()
        want = [p.clone() for p in seen[0]]
        for i, weights in enumerate(seen):
            for a, p in zip(want, weights):
                a.lerp_(p, 1 / min(2, 1 + i // 5))
        for a, b, c in zip(
            want, measured[0], export.load(os.path.join(self.directory.name, "average", train.CHECKPOINT)).parameters()
        ):
            self.assertTrue(torch.allclose(a, b) and torch.equal(b, c))
        for a, b in zip(seen[-1], t.model.parameters()):
            self.assertTrue(torch.equal(a, b))  # training continues from the weights that are not averaged

    @unittest.mock.patch("train.SAVE", 0)
    def test_interrupted_cooling_goes_on(self):
        trainer = lambda out, cool="3": train.Trainer(self.arguments(out, "--steps", "1", "--cool", cool))
        with contextlib.redirect_stdout(io.StringIO()):
            whole, cut = trainer("cold"), trainer("cold cut")
            whole.run()
            cut.rate = unittest.mock.Mock(wraps=cut.rate, side_effect=[unittest.mock.DEFAULT] * 4 + [InterruptedError])
            with self.assertRaises(InterruptedError):
                cut.run()
            resumed, other = trainer("cold cut"), trainer("cold cut", "4")
            resumed.run()
        self.assertEqual((cut.step, other.step), (2, 1))  # another cooling begins anew
        for a, b in zip(whole.model.parameters(), resumed.model.parameters()):
            self.assertTrue(torch.equal(a, b))

    @unittest.mock.patch.multiple(train, EVALUATE=2, SAVE=0)
    def test_interrupted_run_ends_with_the_same_weights(self):
        def trainer(out, *more):
            first = ("--first", self.jsonl, "--first-steps", "3")
            return train.Trainer(self.arguments(out, "--steps", "4", *first, *more))

        with contextlib.redirect_stdout(io.StringIO()):
            whole = trainer("whole")
            whole.run()
            cut = trainer("cut")
            learn = cut.learn

            def fail_at_the_third(data, groups):
                if cut.step == 2:
                    raise InterruptedError
                return learn(data, groups)

            cut.learn = fail_at_the_third
            with self.assertRaises(InterruptedError):
                cut.run()
            resumed = trainer("cut")
            self.assertEqual(resumed.step, 2)
            resumed.run()
        self.assertEqual(whole.rows, resumed.rows)
        for a, b in zip([*whole.model.parameters(), *whole.average], [*resumed.model.parameters(), *resumed.average]):
            self.assertTrue(torch.equal(a, b))
        further = trainer("further", "--weights", os.path.join(self.directory.name, "whole", train.CHECKPOINT))
        self.assertEqual((further.step, further.before), (0, 4))
        for a, b in zip(whole.model.parameters(), further.model.parameters()):
            self.assertTrue(torch.equal(a, b))
        with contextlib.redirect_stdout(io.StringIO()):
            further.run()
        self.assertEqual([row["step"] for row in further.rows], [2, 4, 6, 8])  # one curve of both
        self.assertTrue(os.path.getsize(os.path.join(self.directory.name, "cut", "curve.csv")))

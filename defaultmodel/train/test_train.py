"""Run with `python -m unittest` in this directory."""

import contextlib
import copy
import io
import itertools
import math
import os
import tempfile
import unittest
import unittest.mock
from collections import Counter

import gguf
import numpy as np
import torch
import torch.nn.functional as F

import export
import fake
import lookup
import reading
import restore
import tokenizer as tok
import train
from model import Qwen3, Shape
from packing import Data, Node, encode_segments, pack
from renaming import Renamer

torch.set_num_threads(1)  # threads of a small model wait for each other

SMALL = dict(width=32, layers=2, heads=4, kv_heads=2, head_dim=8, ffn=64)


def flat(pieces):
    return "".join(value for _, value in pieces)


class Train(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
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
                "--batch",
                "500",
                "--cut",
                "2",
                "--out",
                os.path.join(self.directory.name, out),
                *more,
            ]
        )

    def test_pieces_come_back_byte_for_byte(self):
        odd = [["t", "a\n\n  b\t12345 it's Ünï 杯 \x00"], ["s", "<|im_end|>"], ["t", "\n"], ["t", "joined"]]
        for pieces in [odd] + [g["prefix"] for g in tok.groups(self.jsonl)]:
            ids = tok.encode(self.tokenizer, pieces)
            self.assertEqual(self.tokenizer.decode(ids, skip_special_tokens=False), flat(pieces))

    def test_plain_text_never_becomes_a_special_token(self):
        ids = tok.encode(self.tokenizer, [["t", "<|im_end|><tool_call>"]])
        self.assertTrue(min(ids) >= len(tok.SPECIALS), ids)

    def test_special_tokens_are_one_id_and_unknown_ones_an_error(self):
        self.assertEqual(
            tok.encode(self.tokenizer, [["s", text] for text in tok.SPECIALS]), list(range(len(tok.SPECIALS)))
        )
        with self.assertRaises(ValueError):
            tok.encode(self.tokenizer, [["s", "<|no|>"]])

    def test_a_name_is_the_same_tokens_in_a_sentence_and_in_an_argument(self):
        names = ["kitchen", "table", "grosh", "living_room", "lamp2", "thetham", "orange", "nowhere"]
        texts = [
            f'go to the {a} from the {b}:\nnow {{"room": "{a}", "to": "{b}"}} or now' for a in names for b in names
        ] * 20
        tokenizer = tok.train(texts, 500)
        self.assertEqual(len(tokenizer.encode(" the").ids), 1)
        self.assertGreater(len(tokenizer.encode(" now").ids), 1)  # behind a line's end as often
        for name in names:
            alone = tokenizer.encode(name).tokens
            self.assertEqual(tokenizer.encode(f"the {name}").tokens[-len(alone) - 1 :], [tok.SPACE, *alone])
            self.assertEqual(tokenizer.encode(f'"{name}"').tokens, ['"', *alone, '"'])

    def test_the_prompt_before_a_decision_is_a_text_of_its_own(self):
        segments = [
            {"pieces": [["t", "assist"]], "loss": False},
            {"pieces": [["t", "ant\n"]], "loss": False},
            {"pieces": [["t", "Done"]], "loss": True},
        ]
        (before, a), (after, b) = encode_segments(self.tokenizer, segments)
        self.assertEqual((a, b), (False, True))
        self.assertEqual(before, self.tokenizer.encode("assistant\n").ids)
        self.assertEqual(after, self.tokenizer.encode("Done").ids)

    def test_data_is_in_the_tokens_of_its_run_whichever_run_read_it_before(self):
        path = os.path.join(self.directory.name, "other.json")
        tok.train(tok.texts(self.jsonl, 10), 400).save(path)
        other = Data(self.jsonl, path)
        self.assertLess(other.tokens.max(), 400)
        self.assertGreater(self.data.tokens.max(), 400)
        again = Data(self.jsonl, self.vocabulary)
        np.testing.assert_array_equal(again.tokens, self.data.tokens)

    def test_a_packed_batch_has_the_loss_and_gradients_of_its_episodes_alone(self):
        batch = self.data.batch([0, 1, 2])
        self.assertEqual(len(batch.paths[-1]), 3)  # what all share, the group, the episode
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

    def test_the_last_layer_gives_behind_some_tokens_what_it_would_if_it_computed_all(self):
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

    def words(self, renamer, tokens):
        return {tuple(tokens[b : b + n].tolist()) for b, n, _ in zip(*renamer.words(tokens))}

    def test_a_name_is_a_whole_word_that_few_groups_have(self):
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

    def test_a_renamed_group_is_the_same_but_for_its_names(self):
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
                # what the server would make of it
                self.assertEqual(self.tokenizer.encode(" " + text).ids[1:], list(word))
        self.assertGreater(len(stand_in), 3)
        self.assertEqual(len(set(stand_in.values())), len(stand_in))
        self.assertFalse(set(stand_in.values()) & self.words(renamer, a))  # no other word of the group
        np.testing.assert_array_equal(b[~inside], a[~inside])

    def test_one_or_several_things_stay_so_when_they_are_renamed(self):
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

    def test_the_share_of_renamed_groups_counts(self):
        weights = []
        for share in ("0", "1", "1"):
            trainer = train.Trainer(
                self.arguments("rename" + share, "--steps", "1", "--batch", "5000", "--rename", share)
            )
            if trainer.renamer:
                groups = self.data.whole()
                trainer.renamer = Renamer(self.tokenizer, [groups[0]] + 50 * groups[1:])
            with contextlib.redirect_stdout(io.StringIO()):
                trainer.run()
            weights.append(trainer.model.embedding)
        self.assertFalse(torch.equal(weights[0], weights[1]))
        torch.testing.assert_close(weights[1], weights[2], rtol=0, atol=1e-5)

    def test_the_parts_of_groups_are_the_groups(self):
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

    def conversation(self, batch, token):
        """Of all tokens of a batch, whether one can look at them."""
        return batch.before[batch.nodes[token]][batch.nodes] & (batch.positions <= batch.positions[token])

    def test_each_call_looks_at_the_description_of_its_tool_in_its_own_conversation(self):
        batch = self.data.batch([0, 1, 2])
        calls = set((batch.tokens == self.tokenizer.token_to_id("<tool_call>")).nonzero()[:, 0].tolist())
        kind, token, at = batch.looks
        found = set()
        for call, described in zip(
            token[kind == reading.KINDS.index(reading.TOOL)], at[kind == reading.KINDS.index(reading.TOOL)]
        ):
            self.assertTrue(self.conversation(batch, call)[described])
            if batch.positions[described] == 0:  # a reply, which needs none
                self.assertNotIn(int(call) + 1, calls)
            elif int(call) + 1 not in calls:  # there it is decided on
                self.assertEqual(batch.tokens[described - batch.carry[described]], batch.tokens[call + 1])
                found.add(max(c for c in calls if c < call))
        self.assertEqual(found, calls)
        for call, value in zip(
            token[kind == reading.KINDS.index(reading.VALUE_OF)], at[kind == reading.KINDS.index(reading.VALUE_OF)]
        ):
            self.assertTrue(self.conversation(batch, call)[value])
            self.assertEqual(batch.tokens[value], batch.tokens[call + 1])

    @unittest.mock.patch("lookup.SOME", 10**9)
    def test_the_look_up_loses_what_its_heads_give_to_other_tokens_of_the_same_conversation(self):
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

        # Each token has a direction of its own, and those who should look at it have it too, each head for its own
        # kind.
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

    def test_layers_behind_the_sixth_look_where_those_do_that_they_repeat(self):
        self.assertEqual(lookup.of(((2, 3), (4, 1), (5, 0)), 6), ((2, 3), (4, 1), (5, 0)))
        self.assertEqual(lookup.of(((2, 3), (4, 1), (5, 0)), 8), ((2, 3), (4, 1), (5, 0), (6, 1), (7, 0)))
        batch = self.data.batch([0])
        blind = {
            layer: (torch.zeros(2, len(batch.tokens), 2, 8), torch.zeros(2, len(batch.tokens), 8)) for layer in range(8)
        }
        _, seen = lookup.loss(batch, blind, 1)
        for kind in {reading.KINDS[kind] for kind in batch.looks[0].unique()}:
            tokens = len({token for k, token, _ in batch.looks.T.tolist() if reading.KINDS[k] == kind})
            self.assertEqual(seen[kind][1], tokens * len(lookup.of(lookup.LOOKS[kind][0], 8)), kind)

    def test_a_loss_that_is_no_number_ends_the_run_and_the_checkpoint_before_it_stays(self):
        trainer = train.Trainer(self.arguments("nan", "--steps", "3", "--save", "0"))
        learn = trainer.learn
        trainer.learn = lambda *of: Counter(learn(*of) | ({"loss": math.nan} if trainer.step == 1 else {}))
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaisesRegex(SystemExit, "step 2: the loss is nan"):
            trainer.run()
        self.assertEqual(train.Trainer(self.arguments("nan", "--steps", "3", "--resume")).step, 1)

    def test_a_group_with_fewer_episodes_than_parts_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "3 episodes: it cannot be cut into 4 parts"):
            Data(self.jsonl, self.vocabulary, 4)

    def test_the_weight_of_the_look_up_counts(self):
        weights = []
        for weight in ("0", "1"):
            trainer = train.Trainer(self.arguments("look-up" + weight, "--steps", "1", "--lookup", weight))
            with contextlib.redirect_stdout(io.StringIO()):
                trainer.run()
            weights.append(trainer.model.blocks[lookup.CARRY[0]].attn.k.weight)
        self.assertFalse(torch.equal(*weights))

    def heads(self):
        """A model of weights to begin with, and what a head of a layer makes of what it looks at."""
        torch.manual_seed(1)
        model = Qwen3(Shape())
        of = lambda head: slice(head * 64, head * 64 + 64)
        return (
            model,
            lambda layer, head: (
                model.blocks[layer].attn.out.weight[:, of(head)] @ model.blocks[layer].attn.v.weight[of(head // 2)]
            ),
        )

    def test_what_shares_the_keys_of_a_set_head_copies_as_all_others(self):
        model, through = self.heads()
        taken = {
            lookup.CARRY,
            *lookup.FINDS,
            *(at for kind in (reading.ASKED, reading.ROBOT, reading.DECLARED_BY) for at in lookup.LOOKS[kind][0]),
        }
        for at in set(itertools.product(range(2, 6), range(4))) - taken:
            self.assertGreater(through(*at).trace().item() / 64, 0.2, at)

    def test_a_model_begins_with_heads_that_hand_a_name_on(self):
        model, through = self.heads()
        tokens = torch.arange(9, 1009)
        for find in lookup.FINDS:
            handed = model.embedding[tokens] @ (through(*find) @ through(*lookup.CARRY)).T
            likely = (handed @ model.embedding.T).argmax(-1)
            self.assertGreater((likely == tokens).float().mean(), 0.9)

    def test_a_model_begins_with_heads_that_find_the_token_that_was_asked_for_and_the_room_that_belongs_to_the_robot(
        self,
    ):
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

    def test_a_model_begins_with_copying_what_followed_a_token_before(self):
        torch.manual_seed(1)
        model = Qwen3(Shape())
        words = [torch.randint(9, 4096, (3,)) for _ in range(60)]
        tokens = torch.cat([words[i] for i in torch.randint(0, 60, (300,))]).numpy()
        batch = pack([Node(tokens, np.arange(len(tokens)) > 0, -1)])
        with torch.no_grad():
            logits = model(batch, torch.float32, batch.rows)
        logits[torch.arange(len(logits)), batch.tokens[batch.rows]] = 0  # none of these stands twice in a row
        right = logits.argmax(-1) == batch.targets
        inside = (np.arange(1, len(tokens)) % 3 != 0) & (np.arange(1, len(tokens)) > 450)  # of words that came before
        self.assertGreater(right.numpy()[inside].mean(), 0.1)  # 0.23; by chance 0.0002

    def test_an_exported_file_holds_every_weight_the_vocabulary_and_the_template(self):
        path = os.path.join(self.directory.name, "m.gguf")
        export.write(self.model, self.tokenizer, path, "f16", "test")
        reader = gguf.GGUFReader(path)
        names = {t.name: t for t in reader.tensors}
        self.assertEqual(
            sum(int(t.n_elements) for t in reader.tensors), sum(p.numel() for p in self.model.parameters())
        )
        self.assertEqual(list(names["blk.1.ffn_down.weight"].shape), [SMALL["ffn"], SMALL["width"]])
        self.assertEqual(names["blk.0.attn_k.weight"].data.dtype, np.float16)
        self.assertEqual(names["blk.0.attn_k_norm.weight"].data.dtype, np.float32)
        self.assertNotIn("output.weight", names)  # tied
        self.assertEqual(len(reader.fields["tokenizer.ggml.tokens"].data), self.tokenizer.get_vocab_size())
        template = reader.fields["tokenizer.chat_template"].contents()
        for words in ("<function=", "</think>", "enable_thinking"):
            self.assertNotIn(words, template)

    def test_a_share_of_the_weights_that_the_training_began_with_can_be_kept(self):
        at = lambda name: os.path.join(self.directory.name, name)
        other = Qwen3(Shape(**SMALL, vocabulary=self.tokenizer.get_vocab_size()))
        for name, model in (("after.pt", self.model), ("begin.pt", other)):
            torch.save({"shape": model.shape.dict(), "model": model.state_dict()}, at(name))
        kept = export.mix(export.load(at("after.pt")), export.load(at("begin.pt")), 0.25)
        for a, b, k in zip(self.model.parameters(), other.parameters(), kept.parameters(), strict=True):
            torch.testing.assert_close(k, 0.75 * a + 0.25 * b)
        self.assertFalse(torch.equal(other.embedding, self.model.embedding))

    def test_an_exported_file_gives_back_weights_tokenizer_and_curve(self):
        at = lambda name: os.path.join(self.directory.name, name)
        export.write(self.model, self.tokenizer, at("back.gguf"), "f16", "small")
        model, tokenizer = restore.read(at("back.gguf"))
        self.assertEqual(model.shape, self.model.shape)
        for (name, want), got in zip(self.model.named_parameters(), model.parameters(), strict=True):
            self.assertTrue(torch.equal(want.half().float() if want.dim() > 1 else want, got), name)
        for group in tok.groups(self.jsonl):
            self.assertEqual(tok.encode(self.tokenizer, group["prefix"]), tok.encode(tokenizer, group["prefix"]))
        self.assertEqual(tokenizer.get_vocab(), self.tokenizer.get_vocab())
        with open(at("before.csv"), "w", encoding="utf-8") as f:
            f.write("step,loss,held_out,exact\n50,2.5,1.75,0.25\n")
        self.assertEqual(restore.rows(at("before.csv")), [{"step": 50, "loss": 2.5, "held_out": 1.75, "exact": 0.25}])
        self.assertEqual(restore.rows(os.devnull), [])

    def test_with_eight_bits_a_file_has_them_in_the_feed_forward_parts_and_gives_back_what_it_holds(self):
        path = os.path.join(self.directory.name, "eight.gguf")
        model = export.rounded(copy.deepcopy(self.model), "q8_0")
        export.write(self.model, self.tokenizer, path, "q8_0", "small")
        types = {t.name: t.tensor_type.name for t in gguf.GGUFReader(path).tensors}
        self.assertEqual({types[f"blk.1.ffn_{part}.weight"] for part in ("gate", "up", "down")}, {"Q8_0"})
        self.assertEqual(
            {types[f"blk.1.{name}.weight"] for name in ("attn_q", "attn_output")} | {types["token_embd.weight"]},
            {"F16"},
        )
        self.assertEqual(types["blk.1.ffn_norm.weight"], "F32")
        back, _ = restore.read(path)
        for (name, want), got, old in zip(
            model.named_parameters(), back.parameters(), self.model.parameters(), strict=True
        ):
            self.assertTrue(torch.equal(want, got), name)
            torch.testing.assert_close(got, old, rtol=0, atol=old.abs().max().item() / 127)

    def test_a_model_that_grows_computes_the_same_and_repeats_its_last_layers(self):
        model = Qwen3(Shape(**SMALL | {"layers": 3}, vocabulary=self.tokenizer.get_vocab_size()))
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.2)
        grown = restore.grow(model, 5)
        batch = self.data.batch([0])
        with torch.no_grad():
            torch.testing.assert_close(grown(batch, torch.float32, batch.rows), model(batch, torch.float32, batch.rows))
        for own, of in ((3, 1), (4, 2)):
            for (name, p), q in zip(grown.blocks[own].named_parameters(), model.blocks[of].parameters(), strict=True):
                self.assertTrue(
                    torch.equal(p, torch.zeros_like(q) if name in ("attn.out.weight", "down.weight") else q), name
                )
        for layers in (2, 7):
            with self.assertRaisesRegex(SystemExit, "the model has 3"):
                restore.grow(model, layers)

    def test_the_matrices_of_new_layers_learn_faster(self):
        trainer = train.Trainer(
            self.arguments("grown", "--steps", "1", "--layers", "7", "--grown", "2", "--rate-grown", "5")
        )
        with contextlib.redirect_stdout(io.StringIO()):
            trainer.run()
        old, new = trainer.optimizers[0].param_groups
        self.assertAlmostEqual(new["lr"] / old["lr"], 5)
        self.assertEqual(
            [p.shape for p in new["params"]],
            [p.shape for block in trainer.model.blocks[5:] for p in block.parameters() if p.dim() > 1],
        )
        self.assertEqual(len(old["params"]) * 7, (len(old["params"]) + len(new["params"])) * 5)

    def test_a_file_that_export_did_not_write_is_refused(self):
        path = os.path.join(self.directory.name, "other.gguf")
        w = gguf.GGUFWriter(path, "llama")
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        with self.assertRaises(SystemExit):
            restore.read(path)

    def test_a_step_may_take_more_than_all_data_and_every_group_comes_once_an_epoch(self):
        everything = sum(map(self.data.size, range(len(self.data))))
        first = next(train.steps_of(self.data, 2 * everything, 1))
        self.assertEqual(sorted(first), [0, 0, 1, 1, 2, 2])
        steps = train.steps_of(self.data, 1, 1)
        self.assertEqual(sorted(next(steps)[0] for _ in range(3)), [0, 1, 2])

    def test_the_first_lessons_give_way_to_all_data(self):
        chosen = [train.lessons(step, 100, 1) for step in range(200)]
        self.assertTrue(all(chosen[:50]))
        self.assertTrue(sum(chosen[50:75]) > sum(chosen[75:100]) > 0)
        self.assertFalse(any(chosen[100:]))
        self.assertFalse(train.lessons(0, 0, 1))

    def test_what_is_measured_and_exported_before_the_cooling_is_an_average(self):
        with contextlib.redirect_stdout(io.StringIO()):
            t = train.Trainer(self.arguments("average", "--steps", "12", "--average", "2"))
            seen = []
            learn, measure = t.learn, t.measure
            t.learn = lambda *a: (learn(*a), seen.append([p.detach().clone() for p in t.model.parameters()]))[0]
            t.measure = lambda: (measured.append([p.detach().clone() for p in t.model.parameters()]), measure())[1]
            measured = []
            t.args.evaluate = 12
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
            self.assertTrue(torch.equal(a, b))  # training goes on from its own

    def test_a_run_that_was_interrupted_ends_with_the_weights_of_one_that_was_not(self):
        def trainer(out, *more):
            return train.Trainer(
                self.arguments(
                    out,
                    "--steps",
                    "4",
                    "--first",
                    self.jsonl,
                    "--first-steps",
                    "3",
                    "--evaluate",
                    "2",
                    "--save",
                    "0",
                    *more,
                )
            )

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
            resumed = trainer("cut", "--resume")
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
        for name in ("curve.csv", "curve.svg"):
            self.assertTrue(os.path.getsize(os.path.join(self.directory.name, "cut", name)))


if __name__ == "__main__":
    unittest.main()

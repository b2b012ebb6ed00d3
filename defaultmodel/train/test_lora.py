"""Run with `python -m unittest` in this directory."""

import copy
import json
import os

import gguf
import numpy as np
import torch

import export
import lora
import restore
import tokenizer as tok
from packing import Node, pack
from testcase import Case

SYSTEM = [{"role": "system", "content": "You command robots."}]
TOOLS = [{"type": "function", "function": {"name": "go", "description": "Drive to a room.", "parameters": {}}}]


def call(room):
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": {"name": "go", "arguments": {"room": room}}}],
    }


def chat(number, user, answer, origin="model"):
    return {
        "messages": [*SYSTEM, {"role": "user", "content": user}, answer],
        "tools": TOOLS,
        "run_id": "r",
        "request_id": str(number),
        "source_id": 1,
        "origin": origin,
    }


ROWS = [
    chat(1, "Go to the hall.", call("hall")),
    chat(2, "Go to the office.", call("office"), "coaching"),
    chat(3, "Thanks.", {"role": "assistant", "content": "Done."}),
]


class Learning(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        torch.compiler.set_stance("force_eager")
        cls.addClassCleanup(torch.compiler.set_stance, "default")
        cls.gguf = os.path.join(cls.directory.name, "m.gguf")
        export.write(cls.model, cls.tokenizer, cls.gguf, "f32", "test")
        with open(export.TEMPLATE, encoding="utf-8") as f:
            cls.renderer = lora.Renderer(cls.tokenizer, f.read())

    def file(self, name, rows):
        path = os.path.join(self.directory.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
        return path

    def adapted(self):
        """A model whose adapters add something."""
        model = copy.deepcopy(self.model)
        adapters = lora.adapt(model, 4, 8.0)
        for adapter in adapters.values():
            torch.nn.init.normal_(adapter.b, std=0.1)
        return model, adapters

    def test_merged_weights_are_base_plus_scaled_product(self):
        model, adapters = self.adapted()
        base = export.tensors(self.model)
        want = {name: base[name] + 8.0 / 4 * adapter.b @ adapter.a for name, adapter in adapters.items()}
        self.assertEqual(len(want), 7 * self.model.shape.layers)
        batch = self.data.batch([0])
        with torch.no_grad():
            logits = model(batch, torch.float32, batch.rows)
            merged = lora.merge(model)
            torch.testing.assert_close(merged(batch, torch.float32, batch.rows), logits, rtol=1e-4, atol=1e-4)
        for name, got in export.tensors(merged).items():
            torch.testing.assert_close(got, want.get(name, base[name]))

    def test_new_adapter_changes_nothing(self):
        model = copy.deepcopy(self.model)
        lora.adapt(model, 4, 8.0)
        batch = self.data.batch([0])
        with torch.no_grad():
            want = self.model(batch, torch.float32, batch.rows)
            torch.testing.assert_close(model(batch, torch.float32, batch.rows), want)

    def test_adapter_file_has_pairs_of_the_layers_shapes(self):
        _, adapters = self.adapted()
        path = os.path.join(self.directory.name, "a.gguf")
        lora.write_adapter(adapters, 8.0, path)
        reader = gguf.GGUFReader(path)
        self.assertEqual(reader.fields["adapter.type"].contents(), "lora")
        self.assertEqual(reader.fields["adapter.lora.alpha"].contents(), 8.0)
        there = {t.name: list(t.shape) for t in reader.tensors}
        base = {t.name: list(t.shape) for t in gguf.GGUFReader(self.gguf).tensors}
        self.assertEqual(len(there), 2 * len(adapters))
        for name in adapters:
            self.assertEqual(there[name + ".lora_a"], [base[name][0], 4])
            self.assertEqual(there[name + ".lora_b"], [4, base[name][1]])

    def test_row_is_prompt_and_answer_up_to_the_end_of_the_turn(self):
        row = self.renderer.row(ROWS[1], 4.0)
        answer = [
            ["s", "<tool_call>"],
            ["t", '\n{"name": "go", "arguments": {"room": "office"}}\n'],
            ["s", "</tool_call>"],
        ]
        self.assertEqual(row.answer, tok.encode(self.tokenizer, [*answer, ["s", "<|im_end|>"]]))
        begin = tok.encode(self.tokenizer, [["s", "<|im_start|>"], ["t", "assistant\n"]])
        self.assertEqual(row.prompt[-len(begin) :], begin)
        self.assertEqual((row.weight, self.renderer.row(ROWS[0], 4.0).weight), (4.0, 1.0))

    def test_prompts_with_other_tokens_than_the_servers_are_refused(self):
        rows = self.file("rows.jsonl", ROWS)
        seen = [dict(row, prompt_token_ids=self.renderer.row(row, 1).prompt) for row in ROWS]
        read = lambda tokens: lora.read(self.renderer, [rows], [self.file("seen.jsonl", tokens)], 4096, 2.0)
        self.assertEqual([r.weight for r in read(seen)], [1.0, 2.0, 1.0])
        seen[0]["prompt_token_ids"] = seen[0]["prompt_token_ids"][1:]
        with self.assertRaisesRegex(SystemExit, "other tokens"):
            read(seen)

    def test_files_without_chat_rows_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "line 1 is no chat row"):
            lora.read(self.renderer, [self.file("pairs.jsonl", [{"prompt": []}])], [], 4096, 1.0)
        with self.assertRaisesRegex(SystemExit, "no rows"):
            lora.read(self.renderer, [self.file("none.jsonl", [])], [], 4096, 1.0)

    def test_tree_has_the_losses_of_single_rows(self):
        rows = [self.renderer.row(row, 4.0) for row in [*ROWS, ROWS[0]]]  # the last one is learned once
        nodes = lora.tree(rows)
        single = [[Node(*lora_run(row), -1)] for row in rows[:3]]
        with torch.no_grad():
            got, weight = lora.loss(self.model, nodes, torch.float32)
            each = [lora.loss(self.model, own, torch.float32) for own in single]
        torch.testing.assert_close(got, sum(value for value, _ in each), rtol=1e-4, atol=1e-3)
        self.assertEqual(weight, sum(w for _, w in each))
        self.assertLess(len(pack(nodes).tokens), sum(len(own[0].tokens) for own in single))
        self.assertEqual(sum(len(b) for b in lora.batches(rows[:3], 1)), 3)  # a batch for each

    def arguments(self, out, *more):
        path = os.path.join(self.directory.name, out)
        os.makedirs(path, exist_ok=True)
        given = [
            "--model",
            self.gguf,
            "--rows",
            self.file("rows.jsonl", ROWS),
            "--out",
            path,
            "--epochs",
            "20",
            "--threads",
            "1",
        ]
        return lora.arguments([*given, "--rate", "1e-2", "--rank", "4", "--batch", "100", *more])

    def test_training_lowers_the_loss_and_writes_a_model(self):
        args = self.arguments("whole")
        rows = [self.renderer.row(row, 1.0) for row in ROWS]
        lora.Trainer(args).run()
        model, _ = restore.read(os.path.join(args.out, lora.MODEL))
        with torch.no_grad():
            before, after = (lora.loss(m, lora.tree(rows), torch.float32)[0] for m in (self.model, model))
        self.assertLess(after, before)
        self.assertTrue(os.path.exists(os.path.join(args.out, lora.ADAPTER)))

    def test_interrupted_training_goes_on_from_its_checkpoint(self):
        args = self.arguments("cut")
        first = lora.Trainer(args)
        first.total = 5
        first.write = lambda: None  # killed before
        first.run()
        second = lora.Trainer(args)
        self.assertEqual((second.step, second.spent), (5, first.spent))
        for a, b in zip(first.parameters, second.parameters, strict=True):
            self.assertTrue(torch.equal(a, b))
        second.run()
        self.assertEqual(second.step, second.total)


def lora_run(row):
    """Tokens and weights of a row."""
    return np.array(row.prompt + row.answer), np.array([0.0] * len(row.prompt) + [row.weight] * len(row.answer))

"""Run with `python -m unittest` in this directory."""

import copy
import os

import gguf
import numpy as np
import torch

import export
import restore
import tokenizer as tok
from model import Qwen3, Shape
from test_case import SMALL, Case


class Export(Case):
    def test_exported_file_has_all_weights_vocabulary_and_template(self):
        path = os.path.join(self.directory.name, "m.gguf")
        export.write(self.model, self.tokenizer, path)
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

    def test_average_keeps_a_share_of_the_first_weights(self):
        at = lambda name: os.path.join(self.directory.name, name)
        other = Qwen3(Shape(**SMALL, vocabulary=self.tokenizer.get_vocab_size()))
        for name, model in (("after.pt", self.model), ("begin.pt", other)):
            torch.save({"shape": model.shape.dict(), "model": model.state_dict()}, at(name))
        kept = export.mix(export.load(at("after.pt")), export.load(at("begin.pt")), 0.25)
        for a, b, k in zip(self.model.parameters(), other.parameters(), kept.parameters(), strict=True):
            torch.testing.assert_close(k, 0.75 * a + 0.25 * b)
        self.assertFalse(torch.equal(other.embedding, self.model.embedding))

    def test_exported_file_restores_weights_tokenizer_and_curve(self):
        at = lambda name: os.path.join(self.directory.name, name)
        export.write(self.model, self.tokenizer, at("back.gguf"))
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

    def test_file_of_another_program_is_refused(self):
        path = os.path.join(self.directory.name, "other.gguf")
        w = gguf.GGUFWriter(path, "llama")
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        with self.assertRaises(SystemExit):
            restore.read(path)

    def test_rounded_model_is_the_one_in_the_file(self):
        at = os.path.join(self.directory.name, "rounded.gguf")
        export.write(self.model, self.tokenizer, at)
        back, _ = restore.read(at)
        for want, got in zip(export.rounded(copy.deepcopy(self.model)).parameters(), back.parameters(), strict=True):
            self.assertTrue(torch.equal(want, got))

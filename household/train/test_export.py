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

    def test_q8_0_file_has_eight_bit_feed_forward_matrices_only(self):
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

    def test_file_of_another_program_is_refused(self):
        path = os.path.join(self.directory.name, "other.gguf")
        w = gguf.GGUFWriter(path, "llama")
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        with self.assertRaises(SystemExit):
            restore.read(path)

    def test_grown_model_computes_the_same_with_repeated_layers(self):
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

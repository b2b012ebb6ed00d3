"""Run with `python -m unittest` in this directory."""

import tokenizer as tok
from packing import encode_segments
from test_case import Case, flat


class Tokenizer(Case):
    def test_decoded_pieces_are_the_same_bytes(self):
        odd = [["t", "a\n\n  b\t12345 it's Ünï 杯 \x00"], ["s", "<|im_end|>"], ["t", "\n"], ["t", "joined"]]
        for pieces in [odd] + [g["prefix"] for g in tok.groups(self.jsonl)]:
            ids = tok.encode(self.tokenizer, pieces)
            self.assertEqual(self.tokenizer.decode(ids, skip_special_tokens=False), flat(pieces))

    def test_plain_text_never_becomes_a_special_token(self):
        ids = tok.encode(self.tokenizer, [["t", "<|im_end|><tool_call>"]])
        self.assertTrue(min(ids) >= len(tok.SPECIALS), ids)

    def test_special_tokens_have_one_id_and_unknown_ones_fail(self):
        self.assertEqual(
            tok.encode(self.tokenizer, [["s", text] for text in tok.SPECIALS]), list(range(len(tok.SPECIALS)))
        )
        with self.assertRaises(ValueError):
            tok.encode(self.tokenizer, [["s", "<|no|>"]])

    def test_names_have_the_same_tokens_in_sentences_and_arguments(self):
        names = ["kitchen", "table", "grosh", "living_room", "lamp2", "thetham", "orange", "nowhere"]
        texts = [
            f'go to the {a} from the {b}:\nnow {{"room": "{a}", "to": "{b}"}} or now' for a in names for b in names
        ] * 20
        tokenizer = tok.train(texts, 500)
        self.assertEqual(len(tokenizer.encode(" the").ids), 1)
        self.assertGreater(len(tokenizer.encode(" now").ids), 1)  # as common after a newline
        for name in names:
            alone = tokenizer.encode(name).tokens
            self.assertEqual(tokenizer.encode(f"the {name}").tokens[-len(alone) - 1 :], [tok.SPACE, *alone])
            self.assertEqual(tokenizer.encode(f'"{name}"').tokens, ['"', *alone, '"'])

    def test_prompt_before_a_decision_is_encoded_alone(self):
        segments = [
            {"pieces": [["t", "assist"]], "loss": False},
            {"pieces": [["t", "ant\n"]], "loss": False},
            {"pieces": [["t", "Done"]], "loss": True},
        ]
        (before, a), (after, b) = encode_segments(self.tokenizer, segments)
        self.assertEqual((a, b), (False, True))
        self.assertEqual(before, self.tokenizer.encode("assistant\n").ids)
        self.assertEqual(after, self.tokenizer.encode("Done").ids)

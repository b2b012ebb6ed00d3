"""The tokenizer: byte-level BPE that llama.cpp reads as "gpt2" with the pre-tokenizer "llama-bpe".

That pre-tokenizer takes a word with the space before it as one token if the vocabulary has it, whatever the merges say
(ignore_merges). So " or" is one token, and " orange" has the same tokens after its space as "orange" after a quotation
mark.

Texts are tokenized as in the server (inference/tokenize.go). Special tokens are single ids, only where the agent put
them. Adjacent plain pieces are one text.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 4096

# The texts and types are Qwen 3's: markup of the dialogue is a control token, what a model writes in its
# answers is user-defined, so that llama.cpp shows it. Ids count from 0 in this order.
SPECIALS = {
    "<|endoftext|>": "control",
    "<|im_start|>": "control",
    "<|im_end|>": "control",
    "<tool_call>": "user-defined",
    "</tool_call>": "user-defined",
    "<tool_response>": "user-defined",
    "</tool_response>": "user-defined",
    "<think>": "user-defined",
    "</think>": "user-defined",
}

# As Llama 3's tokenizer.json has it, by which agentd and others know the pre-tokenizer of a checkpoint.
PRE = "llama-bpe"
PRE_TOKENIZER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

REPEATS = 1000  # one text counts at most this often for the vocabulary

Piece = list  # ["t", text] or ["s", text of a special token]


def new() -> Tokenizer:
    """An untrained tokenizer, which can only cut texts."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKENIZER), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


# What is cut off: the character before a word, which the pre-tokenizer keeps with it, and each digit, so that numbers
# can be copied like names.
ALONE = r"\A[^\p{L}\p{N}](?=\p{L})|\p{N}"

# A space as byte-level BPE writes it.
SPACE = "Ġ"
CONTROL = {chr(0x100 + byte) for byte in range(0x21)}
JOINED = 256  # at most this many tokens are a word with the space before it
OFTEN = 100  # at least this many occurrences
ALWAYS = 0.98  # at least this share of them after a space


def train(texts: Iterable[str], size: int = VOCABULARY) -> Tokenizer:
    """Learns a vocabulary of at most size ids: special tokens, all bytes, merges by frequency, words with a space.

    A name must have the same tokens after a space, after a quotation mark and at the start, or it could not be copied
    from a sentence into an argument. So words are learned without the character before them. Words that always follow a
    space, which names do not, then become tokens together with it, as whole words only.
    """
    texts = list(texts)
    tokenizer = new()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKENIZER), "isolated"),
            pre_tokenizers.Split(Regex(ALONE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size - min(JOINED, size // 8),
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=24,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return join(strip_specials(tokenizer), texts, size)


def join(tokenizer: Tokenizer, texts: list[str], size: int) -> Tokenizer:
    """The tokenizer with added tokens: the most frequent words that always follow a space, with it."""
    times: Counter[str] = Counter()
    spaced: Counter[str] = Counter()
    cut = new().pre_tokenizer
    for text in texts:
        for word, _ in cut.pre_tokenize_str(text):
            before, word = (word[0], word[1:]) if word[0] in CONTROL or not word[0].isalpha() else ("", word)
            times[word] += 1
            spaced[word] += before == SPACE
    state = json.loads(tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    for word, n in spaced.most_common():
        if len(vocabulary) == size or n < OFTEN:
            break
        if word.isascii() and word.isalpha() and n >= ALWAYS * times[word]:
            vocabulary[SPACE + word] = len(vocabulary)
    state["pre_tokenizer"] = json.loads(new().to_str())["pre_tokenizer"]
    return Tokenizer.from_str(json.dumps(state))


def strip_specials(tokenizer: Tokenizer) -> Tokenizer:
    """The same vocabulary, but plain text never becomes a special token."""
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(state))


def joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces, with adjacent plain ones joined."""
    text = ""
    for kind, value in pieces:
        if kind == "t":
            text += value
            continue
        if text:
            yield ["t", text]
            text = ""
        yield [kind, value]
    if text:
        yield ["t", text]


def encode(tokenizer: Tokenizer, pieces: Iterable[Piece]) -> list[int]:
    """The ids of pieces."""
    ids: list[int] = []
    for kind, value in joined(pieces):
        if kind == "t":
            ids += tokenizer.encode(value, add_special_tokens=False).ids
        elif value in SPECIALS:
            ids.append(tokenizer.token_to_id(value))
        else:
            raise ValueError(f"{value!r} is not a special token of this vocabulary")
    return ids


def groups(path: str) -> Iterator[dict]:
    """The groups of a data set."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def texts(path: str, limit: int) -> Iterator[str]:
    """The plain texts of the first groups. A prefix counts once for each group, and a repeated text at most REPEATS times."""
    seen: Counter[str] = Counter()
    for i, group in enumerate(groups(path)):
        if i == limit:
            return
        pieces = group["prefix"] + [p for episode in group["episodes"] for s in episode for p in s["pieces"]]
        for kind, value in joined(pieces):
            seen[value] += 1
            if kind == "t" and seen[value] <= REPEATS:
                yield value


def main() -> None:
    parser = argparse.ArgumentParser(description="Learn the vocabulary from a data set.")
    parser.add_argument("--data", required=True, help="JSONL that the data set program wrote")
    parser.add_argument("--out", required=True, help="tokenizer.json")
    args = parser.parse_args()
    tokenizer = train(texts(args.data, 2000))
    tokenizer.save(args.out)
    print(f"{args.out}: {tokenizer.get_vocab_size()} ids")


if __name__ == "__main__":
    main()

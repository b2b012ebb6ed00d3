"""Replaces names in training groups.

Names of held-out houses have tokens that answers in the training data rarely or never contain. A model does not write
such tokens, even where the prompt shows them. So some groups get other names, made of any tokens.

A name is a word that occurs in few groups. Its replacement has the same number of tokens, as the tokenizer would encode
its letters, so that all positions stay. A name that ends with s gets a replacement that ends with s, for "the slippers
are" and "the mug is".
"""

import re

import numpy as np
from tokenizers import Tokenizer

# A name occurs in at most this share of the groups. Other words occur in more.
RARE = 0.02
LONGEST = 8  # tokens of a name
TRIES = 20000  # candidates of each length; those that the tokenizer encodes differently are dropped
WORD = re.compile("[a-z]+")  # the space before a name is a token of its own
SPACE = "Ġ"


class Renamer:
    def __init__(self, tokenizer: Tokenizer, groups: list[np.ndarray], seed: int = 1):
        """Takes the tokens of all groups of a data set."""
        self.texts = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
        self.plain = np.array([WORD.fullmatch(text) is not None for text in self.texts])
        # a word may continue after it
        self.letter = np.array([text[-1].isalpha() and text != SPACE for text in self.texts])
        random = np.random.default_rng(seed)
        self.factors = random.integers(1, 2**63, LONGEST, dtype=np.uint64) | np.uint64(1)
        own = [np.unique(self.words(tokens)[2]) for tokens in groups]
        keys, count = np.unique(np.concatenate(own), return_counts=True)
        few = count <= RARE * len(groups)
        self.names, often = keys[few], keys[~few]
        self.bank = [self.made_up(tokenizer, n, often, random) for n in range(1, LONGEST + 1)]

    def words(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each word: its start, its number of tokens, and a number that identifies these tokens."""
        inside = np.concatenate(([False], self.plain[tokens], [False]))
        begins, ends = np.flatnonzero(inside[1:] & ~inside[:-1]), np.flatnonzero(~inside[1:] & inside[:-1])
        whole = ~np.concatenate(([False], self.letter[tokens]))[begins] & (ends - begins <= LONGEST)
        begins, sizes = begins[whole], (ends - begins)[whole]
        return begins, sizes, self.keys(tokens, begins, sizes)

    def text(self, word: np.ndarray) -> str:
        return "".join(self.texts[t] for t in word)

    def plural(self, word: np.ndarray) -> bool:
        text = self.text(word)
        return text.endswith("s") and not text.endswith("ss")

    def keys(self, tokens: np.ndarray, begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        at = np.arange(LONGEST)
        columns = np.minimum(begins[:, None] + at, len(tokens) - 1)
        return ((tokens[columns].astype(np.uint64) + np.uint64(1)) * self.factors * (at < sizes[:, None])).sum(
            1, dtype=np.uint64
        )

    def made_up(
        self, tokenizer: Tokenizer, size: int, often: np.ndarray, random: np.random.Generator
    ) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Uncommon words of a number of tokens, of shape [words, size], and their identifiers: singulars, then plurals. The
        tokenizer encodes them in the same way after a space."""
        words = np.unique(random.choice(np.flatnonzero(self.plain), (TRIES, size)), axis=0)
        space = tokenizer.token_to_id(SPACE)
        read = tokenizer.encode_batch([" " + self.text(word) for word in words])
        words = words[[r.ids == [space, *word] for r, word in zip(read, words.tolist(), strict=True)]]
        keys = self.keys(words.ravel(), np.arange(len(words)) * size, np.full(len(words), size))
        rare, plural = ~np.isin(keys, often), np.array([self.plural(word) for word in words], dtype=bool)
        return tuple((words[of], keys[of]) for of in (rare & ~plural, rare & plural))

    def __call__(self, tokens: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """A group's tokens with other names. The mapping of names is one to one."""
        begins, sizes, keys = self.words(tokens)
        taken = set(keys.tolist())
        tokens = tokens.copy()
        for name in np.intersect1d(keys, self.names):
            at = np.flatnonzero(keys == name)
            begin, size = begins[at[0]], sizes[at[0]]
            words, numbers = self.bank[size - 1][self.plural(tokens[begin : begin + size])]
            for i in random.integers(len(words), size=10) if len(words) else ():
                if int(numbers[i]) not in taken:
                    taken.add(int(numbers[i]))
                    tokens[begins[at, None] + np.arange(size)] = words[i]
                    break
        return tokens

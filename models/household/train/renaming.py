"""Other tokens for names.

Names in houses are made up, and their tokens are in few houses each: half of a vocabulary hardly ever comes where a model has to
write, and some tokens never, since no house of the training has them. A model does not write such a token, however plainly it
stands in the prompt. So in some houses the tokens of names are exchanged for any others of these: a name is only what it is
called here, and all tokens are written equally often.
"""

import re

import numpy as np

RARE = 0.02  # share of the groups that has a token of names at most; those of wordings and of known words are in more
LETTERS = re.compile("[a-z]+")  # the space before a name is a token of its own


class Renamer:
    def __init__(self, texts: list[str], groups: list[np.ndarray]):
        """Of a vocabulary, and the tokens of all groups of a data set."""
        seen = np.zeros(len(texts), dtype=np.int64)
        for tokens in groups:
            seen[np.unique(tokens)] += 1
        letters = np.array([LETTERS.fullmatch(text) is not None for text in texts])
        self.names = np.flatnonzero(letters & (seen <= RARE * len(groups)))
        self.vocabulary = len(texts)

    def table(self, tokens: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """What stands for each token of the vocabulary in a group that has these tokens: never one for two."""
        own = np.intersect1d(tokens, self.names)
        table = np.arange(self.vocabulary, dtype=tokens.dtype)
        table[own] = random.choice(self.names, len(own), replace=False)
        return table

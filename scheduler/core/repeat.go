package core

import "slices"

// repeated returns the length of the shortest n-gram, of least tokens or more, that stands
// repeatTimes times in a row at the end of tokens; 0: none. Such candidates rarely end by
// themselves, and all others of their request wait for them.
func repeated(tokens []Token, least int) int {
	n := len(tokens)
	for size := least; size <= min(n/repeatTimes, maxRepeat); size++ {
		if tokens[n-1] == tokens[n-1-size] &&
			slices.Equal(tokens[n-repeatTimes*size:n-size], tokens[n-(repeatTimes-1)*size:]) {
			return size
		}
	}
	return 0
}

// repetition is the length of the n-gram that ends a candidate because it repeats itself; 0: none does.
func (c *candidate) repetition(least int) int {
	size := repeated(c.tokens, least)
	if c.sampled[0] <= len(c.tokens)-repeatTimes*size {
		return 0 // the grammar may force a constant that repeats
	}
	return size
}

// note sets which of its tokens are sampled: all but those with these indexes.
func (c *candidate) note(forced []int) {
	for i, left := len(c.tokens)-1, repeatTimes; i >= 0 && left > 0; i-- {
		if !slices.Contains(forced, i) {
			left--
			c.sampled[left] = i + 1
		}
	}
}

// Repetition is the length of the n-gram with which tokens end a candidate of Params.StopRepeats; 0: they do not.
// forced are the indexes of those that a grammar forced.
func Repetition(tokens []Token, forced []int) int {
	c := candidate{tokens: tokens}
	c.note(forced)
	return c.repetition(tuned.minRepeat)
}

package core

import "slices"

// repeated returns the length of the shortest n-gram, of at least least tokens, that occurs repeatTimes times in a row
// at the end of tokens; 0 without one. Such candidates rarely end with an end token, and their request waits for them.
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

// repetition is repeated for a candidate. It is 0 if fewer than repeatTimes tokens of the repetition were sampled.
func (c *candidate) repetition(least int) int {
	size := repeated(c.tokens, least)
	if c.sampled[0] <= len(c.tokens)-repeatTimes*size {
		return 0 // the grammar may force a constant that repeats
	}
	return size
}

// setSampled sets sampled from the indexes of the forced tokens.
func (c *candidate) setSampled(forced []int) {
	for i, left := len(c.tokens)-1, repeatTimes; i >= 0 && left > 0; i-- {
		if !slices.Contains(forced, i) {
			left--
			c.sampled[left] = i + 1
		}
	}
}

// Repetition returns the length of the repeated n-gram for which a candidate with these tokens and Params.StopRepeats
// ends, 0 without one. forced has the indexes of the tokens that a grammar forced.
func Repetition(tokens []Token, forced []int) int {
	c := candidate{tokens: tokens}
	c.setSampled(forced)
	return c.repetition(tuned.minRepeat)
}

package core

import "slices"

// repeated is how many tokens stand repeatTimes times in a row at the end of tokens,
// the fewest that do of least and more; 0: none do. Candidates that go on like that
// seldom find an end, and all others of their request wait for them.
func repeated(tokens []Token, least int) int {
	n := len(tokens)
	for size := least; size <= min(n/repeatTimes, repeatMost); size++ {
		if tokens[n-1] == tokens[n-1-size] &&
			slices.Equal(tokens[n-repeatTimes*size:n-size], tokens[n-(repeatTimes-1)*size:]) {
			return size
		}
	}
	return 0
}

// repeated is repeated of the candidate's tokens, where the model had a choice as often: a
// constant that the grammar forces may repeat.
func (c *candidate) repeated(least int) int {
	size := repeated(c.tokens, least)
	if c.sampled[0] <= len(c.tokens)-repeatTimes*size {
		return 0
	}
	return size
}

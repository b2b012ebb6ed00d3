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

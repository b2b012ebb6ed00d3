package core

// lengths is what is known of how long candidates become.
type lengths struct {
	used  bool // Config.Overcommit
	mean  float64
	count int
}

func (l *lengths) add(tokens int) {
	l.count++
	l.mean += (float64(tokens) - l.mean) / float64(min(l.count, lengthMemory))
}

// reserve returns the cells to be kept for a candidate that has generated tokens.
// The last token of a candidate is chosen, never decoded.
func (j *job) reserve(generated int) int {
	worst := j.MaxNew - generated - 1
	if !j.lengths.used || j.lengths.count < lengthMemory {
		return worst
	}
	usual := int(lengthFactor*j.lengths.mean) - generated
	return min(worst, max(usual, leastReserve))
}

package export

const (
	// maxValue bounds one exchange or one file of a graph in bytes. It is twice what the largest
	// response repeats of its request.
	maxValue = 1 << 30

	// rowGroupBytes is how much of a Parquet file is held in memory before it is written.
	rowGroupBytes = 32 << 20

	// minSecret is the shortest header value that is taken out of rows. Shorter ones occur by chance
	// in ordinary words.
	minSecret = 8
)

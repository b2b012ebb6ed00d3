package rows

const (
	// maxValue bounds one exchange or one file of a graph in bytes. It is twice what the largest
	// response repeats of its request.
	maxValue = 1 << 30

	// firstLook is how much of a broken value is read before it is looked at whether it can be cut.
	firstLook = 64 << 10

	// rowGroupBytes is how much of a Parquet file is held in memory before it is written.
	rowGroupBytes = 32 << 20

	// maxAsked bounds how many situations with the same input are read again for a correction. A run
	// asks the same input a few times. Files of many runs may repeat it a million times.
	maxAsked = 8

	// minSecret is the shortest header value that is taken out of rows. Shorter ones occur by chance
	// in ordinary words.
	minSecret = 8
)

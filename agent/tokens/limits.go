package tokens

const (
	// tokenCacheBytes bounds the texts whose tokens are cached. Each turn sends the history
	// again, and only its new end is tokenized.
	tokenCacheBytes = 32 << 20
	// tokenCacheMin is the shortest text to cache, in bytes.
	tokenCacheMin = 256
)

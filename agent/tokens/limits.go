package tokens

const (
	// tokenCacheBytes bounds the texts whose tokens are cached: each turn repeats the history.
	tokenCacheBytes = 32 << 20
	// tokenCacheMin is the shortest text to cache, in bytes.
	tokenCacheMin = 256
)

package tokens

const (
	tokenCacheBytes = 32 << 20 // bounds the texts whose tokens are cached: each turn repeats the history
	tokenCacheMin   = 256      // the shortest text to cache, in bytes
)

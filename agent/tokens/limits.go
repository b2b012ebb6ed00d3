package tokens

const (
	tokenCacheBytes = 32 << 20 // of cached texts with their tokens: each turn repeats the history
	tokenCacheMin   = 256      // bytes of the shortest text to cache
)

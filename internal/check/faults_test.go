package check

const (
	candidate = `[{"output":{"say":"x"},"memory":{}}]`
	anError   = `[{"error":{"code":"invalid_coaching","message":"m"},"memory":{}}]`
)

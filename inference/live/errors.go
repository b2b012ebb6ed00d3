package live

// Reason is why a change of the weights was refused.
type Reason int

const (
	// NotAllowed: the server has no directory of weights.
	NotAllowed Reason = iota
	// UnknownAdapter: no adapter has the name.
	UnknownAdapter
	// Busy: other weights are being loaded.
	Busy
	// Unusable: the file can't serve in place of the present one.
	Unusable
	// NoMemory: the file does not fit the memory while the present weights serve.
	NoMemory
)

// Error refuses a change of the weights. The old ones serve as before.
type Error struct {
	Reason Reason
	Detail string // for the client
}

func (e *Error) Error() string { return e.Detail }

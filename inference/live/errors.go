package live

// Reason is why a change of the weights was refused.
type Reason int

const (
	// NotAllowed says that the server has no directory of weights.
	NotAllowed Reason = iota
	// UnknownAdapter says that no adapter has the name.
	UnknownAdapter
	// Busy says that other weights are being loaded.
	Busy
	// Unusable says that the file can't serve in place of the present one.
	Unusable
	// NoMemory says that the memory is too small for the file while the present weights serve.
	NoMemory
)

// Error refuses a change of the weights. The old ones serve as before.
type Error struct {
	Reason Reason
	Detail string // for the client
}

func (e *Error) Error() string { return e.Detail }

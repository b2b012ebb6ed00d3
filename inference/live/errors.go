package live

// Reason is why a change of the weights was refused.
type Reason int

// Reasons.
const (
	NotAllowed     Reason = iota // the server has no directory of weights
	UnknownAdapter               // no adapter has the name
	Busy                         // other weights are being loaded
	Unusable                     // the file is invalid, or differs too much from the present one
	NoMemory                     // the memory is too small for the new weights beside the present ones
)

// Error refuses a change of the weights. The present ones continue to serve.
type Error struct {
	Reason Reason
	Detail string // for the client
}

func (e *Error) Error() string { return e.Detail }

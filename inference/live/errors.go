package live

// Reason is why a change of the weights was refused.
type Reason int

// The reasons.
const (
	NotAllowed     Reason = iota // the server has no directory of weights
	UnknownAdapter               // no adapter has the name
	Busy                         // other weights are being loaded
	Unusable                     // the file can't serve in place of the present one
	NoMemory                     // the memory is too small for the file while the present weights serve
)

// Error refuses a change of the weights. The old ones serve as before.
type Error struct {
	Reason Reason
	Detail string // for the client
}

func (e *Error) Error() string { return e.Detail }

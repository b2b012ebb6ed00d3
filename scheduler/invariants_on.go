//go:build race || invariants

package scheduler

// checkInvariants verifies the core after every call and the context against it
// whenever it is idle: on under the race detector and with -tags invariants.
const checkInvariants = true

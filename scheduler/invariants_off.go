//go:build !race && !invariants

package scheduler

// checkInvariants: see invariants_on.go.
const checkInvariants = false

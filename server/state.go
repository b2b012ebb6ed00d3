package server

import "agentd/protocol"

// State is a stage of a Server's life.
type State int

// The states, in the order a server passes through them.
const (
	Loading State = iota
	Ready
	Draining
)

func (s State) String() string {
	return [...]string{protocol.HealthLoading, protocol.HealthReady, protocol.HealthDraining}[s]
}

package server

import "agentd/protocol"

// State is the state of a Server.
type State int

// States, in the order in which a server has them.
const (
	Loading State = iota
	Ready
	Draining
)

func (s State) String() string {
	return [...]string{protocol.HealthLoading, protocol.HealthReady, protocol.HealthDraining}[s]
}

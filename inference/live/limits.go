package live

import "time"

const (
	closeWait      = 10 * time.Second // how long Service.Close waits for an aborted load
	pauseLooks     = time.Second      // how often a pause checks whether a step is stuck
	minLocalAnswer = 256              // tokens; the least limit of a coach's answer, even after a long question
)

package live

import "time"

const (
	// closeWait is how long Service.Close waits for a load, which was aborted before.
	closeWait = 10 * time.Second

	// pauseLooks is how often a pause that waits looks for a step that never ends.
	pauseLooks = time.Second

	// minLocalAnswer is the least token limit of a coach's answer to a long question.
	minLocalAnswer = 256
)

package live

import "time"

const (
	// closeWait is how long Service.Close waits for a load, which was aborted before.
	closeWait = 10 * time.Second

	// longPause is how long a pause lasts until the log reminds of it, again and again.
	longPause = 5 * time.Minute

	// minLocalAnswer is the least token limit of a coach's answer to a long question.
	minLocalAnswer = 256
)

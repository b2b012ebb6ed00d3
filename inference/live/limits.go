package live

import "time"

const (
	closeWait      = 10 * time.Second // of Service.Close for a load, which was aborted before
	pauseLooks     = time.Second      // between looks of a pause that waits for a step that never ends
	minLocalAnswer = 256              // the least token limit of a coach's answer to a long question
)

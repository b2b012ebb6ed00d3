package budget

import "time"

// Limits of the memory of requests, in bytes.
const (
	Default = 1 << 30  // the budget where the memory of the process is not known
	Most    = 4 << 30  // the largest budget. The protocol's largest answer fits four times.
	Least   = 16 << 20 // the smallest one. With less, hardly any request could be answered.

	smallShare = 1 << 20 // the largest share that may use the whole budget
	smallPart  = 8       // 1/smallPart of it is closed to others

	reservePart = 6 // 1/reservePart of the memory is left for sockets, stacks of threads and native code
	heapPart    = 2 // 1/heapPart of what Go may use is for requests. The rest is garbage, and what is not counted.
	// leastHeap and leastHeapPart bound Go's memory limit from below, where native code holds nearly everything: a
	// limit below what lives would keep the collector busy all the time.
	leastHeap     = 64 << 20
	leastHeapPart = 8

	followEvery = time.Second // how often the budget follows what native code holds
	// A burst is over when requests hold 1/burstPart of its most, and matters from burstFrom bytes on.
	burstFrom, burstPart = 128 << 20, 8
	minChange            = 64 // Go's memory limit is left alone until it would change by 1/minChange
)

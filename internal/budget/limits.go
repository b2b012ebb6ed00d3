package budget

import "time"

const (
	// Default is the budget where the memory of the process is not known.
	Default = 1 << 30
	// Most is the largest budget. The protocol's largest answer fits four times.
	Most = 4 << 30
	// Least is the smallest budget. With less, hardly any request could be answered.
	Least = 16 << 20

	// smallShare is the largest share in bytes that may use the whole budget, of which
	// 1/smallPart is closed to others.
	smallShare = 1 << 20
	smallPart  = 8

	// reservePart: 1/reservePart of the memory is left for buffers of sockets, stacks of
	// threads and what native code allocates for a moment.
	reservePart = 6
	// heapPart: requests may hold 1/heapPart of the memory that Go may use. The rest is for
	// garbage and for what is not counted.
	heapPart = 2
	// leastHeap and leastHeapPart bound Go's memory limit from below, where native code holds
	// nearly everything: a limit below what lives would keep the collector busy all the time.
	leastHeap     = 64 << 20
	leastHeapPart = 8

	// followEvery is how often the budget follows what native code holds. A model that is
	// loaded or a cache of prefixes that grows makes it smaller.
	followEvery = time.Second
	// minChange: Go's memory limit is left alone until it would change by 1/minChange.
	minChange = 64
)

package budget

import "time"

// Limits of the memory of requests, in bytes.
const (
	Default = 1 << 30  // the budget if the memory of the process is not known
	Most    = 4 << 30  // the largest budget: four of the protocol's largest answers
	Least   = 16 << 20 // the smallest budget; with less, hardly any request could be answered

	smallShare = 1 << 20 // the largest share that may use the whole budget
	smallPart  = 8       // 1/smallPart of the budget is for such shares only

	reservePart = 6 // 1/reservePart of the memory is left for sockets, stacks of threads and native code
	heapPart    = 2 // 1/heapPart of Go's memory is for requests; the rest is for garbage and memory that is not counted
	// leastHeap and leastHeapPart bound Go's memory limit from below if native code holds nearly all memory: with a
	// limit below the live heap, the garbage collector would run all the time.
	leastHeap     = 64 << 20
	leastHeapPart = 8

	followEvery = time.Second // how often the budget is adapted to the memory of native code
	// See settle. Bursts below burstFrom bytes don't count.
	burstFrom, burstPart = 128 << 20, 8
	minChange            = 64 // Go's memory limit is set if it changes by at least 1/minChange
)

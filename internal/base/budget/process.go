package budget

import (
	"context"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// System is the file system with the kernel's files about limits and use of memory. Tests replace it.
var System = os.DirFS("/")

// group is a cgroup with a memory limit.
type group struct {
	Limit, Used uint64 // bytes; Used is without the inactive file cache
}

// groups returns the process's cgroups that have a limit, of both cgroup versions.
func groups(system fs.FS) (groups []group) {
	mounts := mountsOf(system)
	for line := range lines(system, "proc/self/cgroup") {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, at, _ := strings.Cut(rest, ":")
		kind := kinds[0]
		switch {
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			kind = kinds[1]
		case id != "0" || controllers != "":
			continue
		}
		m, ok := mounts[kind.system]
		if !ok {
			continue
		}
		// In a container without its own namespace, the path is the host's.
		below, inside := strings.CutPrefix(at, strings.TrimSuffix(m.root, "/"))
		if !inside {
			below = ""
		}
		for dir := path.Join(m.point, below); ; dir = path.Dir(dir) {
			limit, errLimit := number(system, path.Join(dir, kind.limit)) // "max" without a limit
			used, errUsed := number(system, path.Join(dir, kind.used))
			if errLimit == nil && errUsed == nil && limit < unlimited {
				cache := field(system, path.Join(dir, "memory.stat"), kind.cache)
				groups = append(groups, group{limit, used - min(used, cache)})
			}
			if dir == m.point || len(dir) < len(m.point) {
				break
			}
		}
	}
	return groups
}

// unlimited: in version 1, a limit of at least about this means no limit.
const unlimited = 1 << 62

// kinds has, for each cgroup version, the file system's type and the names of a group's files.
var kinds = [2]struct{ system, limit, used, cache string }{
	{"cgroup2", "memory.max", "memory.current", "inactive_file"},
	{"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
}

// mount is a mount of cgroups: point shows the group root. Paths have no leading slash.
type mount struct{ root, point string }

// mountsOf returns the mounts of cgroups that may control memory, by the file system's type.
func mountsOf(system fs.FS) map[string]mount {
	mounts := map[string]mount{}
	for line := range lines(system, "proc/self/mountinfo") {
		before, after, _ := strings.Cut(line, " - ")
		about, of := strings.Fields(before), strings.Fields(after)
		if len(about) < 5 || len(of) < 3 || of[0] == kinds[1].system && !slices.Contains(strings.Split(of[2], ","), "memory") {
			continue
		}
		mounts[of[0]] = mount{about[3], strings.TrimPrefix(about[4], "/")}
	}
	return mounts
}

// total returns the bytes of memory that the process may use: the machine's, or the lowest limit of its
// cgroups. 0: unknown.
func total(system fs.FS) uint64 {
	total := kibibytes(system, "proc/meminfo", "MemTotal:")
	for _, g := range groups(system) {
		if total == 0 || g.Limit < total {
			total = g.Limit
		}
	}
	return total
}

// Free returns the bytes of available memory: the machine's, or the smallest rest of its cgroups' limits. 0: unknown.
func Free(system fs.FS) uint64 {
	free := kibibytes(system, "proc/meminfo", "MemAvailable:")
	for _, g := range groups(system) {
		free = min(free, max(g.Limit-min(g.Used, g.Limit), 1))
	}
	return free
}

// kibibytes is field for numbers in KiB; it returns bytes.
func kibibytes(system fs.FS, name, key string) uint64 { return field(system, name, key) << 10 }

// field returns the number after a key in a file of keys and numbers, 0 if the file or the key is missing.
func field(system fs.FS, name, key string) uint64 {
	for line := range lines(system, name) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == key {
			n, err := strconv.ParseUint(fields[1], 10, 54)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

func number(system fs.FS, name string) (uint64, error) {
	raw, err := fs.ReadFile(system, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64)
}

// lines iterates over the lines of a file with their ends. If the file can't be read, it has none.
func lines(system fs.FS, name string) iter.Seq[string] {
	raw, _ := fs.ReadFile(system, name)
	return strings.Lines(string(raw))
}

// process is the memory of the process in bytes.
type process struct {
	total  uint64 // see total
	native uint64 // outside of Go: weights, KV caches, buffers, code
	live   uint64 // Go's live heap
	given  uint64 // GOMEMLIMIT; 0: not set
}

// shares returns Go's memory limit, and the budget of requests, which hold used bytes now.
func (p process) shares(used int64) (heap, budget int64) {
	if p.given == 0 && p.total == 0 {
		return math.MaxInt64, Default
	}
	limit := p.given
	if limit == 0 {
		most := p.total - p.total/reservePart
		limit = max(most-min(most, p.native), leastHeap, p.total/leastHeapPart)
	}
	limit = min(limit, math.MaxInt64)
	rest := int64(limit) - max(0, int64(p.live)-used)
	return int64(limit), min(max(rest/heapPart, Least), Most)
}

// now measures the process.
func now(system fs.FS, given uint64) process {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	mapped := samples[0].Value.Uint64() - samples[1].Value.Uint64()
	resident := kibibytes(system, "proc/self/status", "VmRSS:")
	return process{total: total(system), native: resident - min(resident, mapped), live: samples[2].Value.Uint64(), given: given}
}

// given is GOMEMLIMIT in bytes, 0 if it is not set.
var given = func() uint64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return uint64(limit)
	}
	return 0
}()

// Follow adapts b, until ctx ends, to the memory that native code leaves. It also sets Go's memory limit, unless
// GOMEMLIMIT is set, which then bounds the budget.
func (b *Budget) Follow(ctx context.Context, log zerolog.Logger) {
	b.follow()
	log.Debug().Uint64("memory", total(System)).Uint64("gomemlimit", given).Int64("budget", b.Limit()).Msg("memory for requests")
	go func() {
		tick := time.NewTicker(followEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				b.follow()
			case <-ctx.Done():
				return
			}
		}
	}()
}

func (b *Budget) follow() {
	b.settle(debug.FreeOSMemory)
	heap, limit := now(System, given).shares(b.Used())
	b.SetLimit(limit)
	if was := debug.SetMemoryLimit(-1); given == 0 && max(was-heap, heap-was) > was/minChange {
		debug.SetMemoryLimit(heap)
	}
}

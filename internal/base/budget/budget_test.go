package budget

import (
	"errors"
	"math"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSharesAreBoundedTogether(t *testing.T) {
	b := New(64 << 20)
	first, second := b.Share(), b.Share()
	if err := first.Hold(40 << 20); err != nil {
		t.Fatal(err)
	}
	if err := second.Hold(40 << 20); !errors.Is(err, ErrFull) || second.Held() != 0 {
		t.Errorf("a second one: %v with %d held", err, second.Held())
	}
	if err := first.Hold(10 << 20); err != nil {
		t.Errorf("a share that shrinks: %v", err)
	}
	if err := second.Add(40 << 20); err != nil {
		t.Errorf("when there is room: %v", err)
	}
	first.Release()
	first.Release()
	second.Release()
	if b.Used() != 0 {
		t.Errorf("%d bytes are held by nobody", b.Used())
	}
}

func TestShareBeyondTheBudgetIsTooLarge(t *testing.T) {
	b := New(64 << 20)
	share := b.Share()
	var tooLarge *TooLargeError
	if err := share.Hold(65 << 20); !errors.As(err, &tooLarge) || tooLarge.Need != 65<<20 {
		t.Errorf("got %v", err)
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes are held after it", b.Used())
	}
}

func TestLargeSharesLeaveRoomForSmallOnes(t *testing.T) {
	b := New(64 << 20)
	large := b.Share()
	for large.Add(1<<20) == nil {
	}
	if got := large.Held(); got != 56<<20 {
		t.Errorf("a large share got %d MiB", got>>20)
	}
	for i := range 8 {
		if err := b.Share().Hold(smallShare); err != nil {
			t.Errorf("small share %d: %v", i, err)
		}
	}
	if err := b.Share().Hold(1); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
}

func TestSmallerLimitKeepsWhatIsHeld(t *testing.T) {
	b := New(64 << 20)
	share := b.Share()
	if err := share.Hold(50 << 20); err != nil {
		t.Fatal(err)
	}
	b.SetLimit(32 << 20)
	if err := share.Hold(40 << 20); err != nil || share.Held() != 40<<20 {
		t.Errorf("shrinking: %v", err)
	}
	if err := b.Share().Hold(1); !errors.Is(err, ErrFull) {
		t.Errorf("another: %v", err)
	}
}

const (
	v2Mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	v1Mount = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
)

// files makes a file system.
func files(of map[string]string) fstest.MapFS {
	system := fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal:    16777216 kB\nMemAvailable:  8388608 kB\nOdd: x kB\n")}}
	for name, text := range of {
		system[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return system
}

func TestMemoryFollowsTheTightestCgroup(t *testing.T) {
	for name, test := range map[string]struct {
		files       map[string]string
		total, free uint64 // MiB
	}{
		"none": {nil, 16384, 8192},
		"version 2": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2Mount,
			"sys/fs/cgroup/memory.max": "1073741824\n", "sys/fs/cgroup/memory.current": "268435456\n",
		}, 1024, 768},
		"version 2 with a cache of files": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2Mount,
			"sys/fs/cgroup/memory.max": "1073741824\n", "sys/fs/cgroup/memory.current": "1073741824\n",
			"sys/fs/cgroup/memory.stat": "anon 268435456\ninactive_file 805306368\n",
		}, 1024, 768},
		"version 2 without a limit": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2Mount,
			"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "268435456\n",
		}, 16384, 8192},
		"version 2, the limit at a service's parent": {map[string]string{
			"proc/self/cgroup": "0::/robots.slice/agentd.service\n", "proc/self/mountinfo": v2Mount,
			"sys/fs/cgroup/robots.slice/agentd.service/memory.max": "4294967296\n", "sys/fs/cgroup/robots.slice/agentd.service/memory.current": "0\n",
			"sys/fs/cgroup/robots.slice/memory.max": "2147483648\n", "sys/fs/cgroup/robots.slice/memory.current": "2046820352\n",
		}, 2048, 96},
		"version 1": {map[string]string{
			"proc/self/cgroup": "5:cpu:/pod\n4:memory:/pod\n0::/\n", "proc/self/mountinfo": v1Mount,
			"sys/fs/cgroup/memory/pod/memory.limit_in_bytes": "536870912\n", "sys/fs/cgroup/memory/pod/memory.usage_in_bytes": "1048576\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
		}, 512, 511},
		"version 1 in a container that sees the host's path": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/docker/abc\n",
			"proc/self/mountinfo":                        "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "0\n",
		}, 512, 512},
		"both versions": {map[string]string{
			"proc/self/cgroup": "4:memory:/\n0::/\n", "proc/self/mountinfo": v1Mount + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "0\n",
		}, 512, 512},
		"a limit above the machine's memory": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2Mount,
			"sys/fs/cgroup/memory.max": "1099511627776\n", "sys/fs/cgroup/memory.current": "0\n",
		}, 16384, 8192},
	} {
		system := files(test.files)
		if total, free := total(system), Free(system); total != test.total<<20 || free != test.free<<20 {
			t.Errorf("%s: %d and %d MiB, want %d and %d", name, total>>20, free>>20, test.total, test.free)
		}
	}
	if total(fstest.MapFS{})+Free(fstest.MapFS{})+kibibytes(files(nil), "proc/meminfo", "Odd:") != 0 {
		t.Error("memory out of nothing")
	}
}

func TestBudgetIsHalfOfTheMemoryThatGoMayUse(t *testing.T) {
	for name, test := range map[string]struct {
		process      process // MiB
		used         int64
		heap, budget int64
	}{
		"nothing is known":              {process{}, 0, math.MaxInt64 >> 20, Default >> 20},
		"a pod of 1 GiB":                {process{total: 1024, native: 196, live: 20}, 0, 657, 318},
		"requests do not shrink it":     {process{total: 1024, native: 196, live: 320}, 300, 657, 318},
		"a large model":                 {process{total: 65536, native: 57000, live: 100}, 0, 8192, 4046},
		"weights beyond the memory":     {process{total: 1024, native: 4096, live: 20}, 0, 128, 54},
		"a tiny pod":                    {process{total: 64, native: 64, live: 20}, 0, 64, 22},
		"a large machine":               {process{total: 262144, native: 1024, live: 20}, 0, 217429, Most >> 20},
		"GOMEMLIMIT":                    {process{total: 65536, native: 1024, live: 24, given: 1024}, 0, 1024, 500},
		"GOMEMLIMIT below what lives":   {process{total: 65536, live: 2048, given: 1024}, 0, 1024, Least >> 20},
		"the collector has not run yet": {process{total: 1024, native: 196}, 200, 657, 328},
	} {
		p := test.process
		p.total, p.native, p.live, p.given = p.total<<20, p.native<<20, p.live<<20, p.given<<20
		heap, budget := p.shares(test.used << 20)
		if heap>>20 != test.heap || budget>>20 != test.budget {
			t.Errorf("%s: %d and %d MiB, want %d and %d", name, heap>>20, budget>>20, test.heap, test.budget)
		}
	}
}

func TestProcessMeasuresItself(t *testing.T) {
	p := now(System, 0)
	if p.total == 0 || p.native == 0 || p.native > p.total {
		t.Errorf("got %+v", p)
	}
}

func TestFullCgroupHasNextToNothingFree(t *testing.T) {
	system := files(map[string]string{
		"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2Mount,
		"sys/fs/cgroup/memory.max": "1073741824\n", "sys/fs/cgroup/memory.current": "1073741824\n",
	})
	if free := Free(system); free != 1 { // 0 means unknown
		t.Errorf("%d bytes are free", free)
	}
}

// TestGarbageOfABurstIsFreedOnce when requests hold little for the time between two looks.
func TestGarbageOfABurstIsFreedOnce(t *testing.T) {
	b, freed := New(1<<30), 0
	look := func(what string, want int) {
		t.Helper()
		b.settle(func() { freed++ })
		if freed != want {
			t.Errorf("%s: freed %d times, want %d", what, freed, want)
		}
	}
	s := b.Share()
	hold := func(bytes int64) {
		t.Helper()
		if err := s.Hold(bytes); err != nil {
			t.Fatal(err)
		}
	}
	hold(burstFrom - 1)
	hold(0)
	look("little", 0)
	look("little, later", 0)
	hold(2 * burstFrom)
	look("a burst", 0)
	hold(0)
	hold(burstFrom)
	hold(0)
	look("it was over for a moment", 0)
	hold(2 * burstFrom / burstPart)
	look("it is over", 1)
	hold(0)
	look("later", 1)
	hold(burstFrom)
	hold(0)
	look("the next, between two looks", 1)
	look("it is over", 2)
}

package scheduler

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// delays measures how long threads wait for a processor, by Linux's schedstat.
type delays struct {
	threads []threadDelay
}

type threadDelay struct {
	file  *os.File
	total time.Duration // as of the last look
}

// watch measures these threads from now on, and no others.
func (d *delays) watch(ids []int) error {
	d.close()
	for _, id := range ids[:min(len(ids), maxDelays)] {
		f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/schedstat", id))
		if err != nil {
			return err
		}
		d.threads = append(d.threads, threadDelay{file: f})
	}
	_, err := d.longest(true)
	return err
}

// maxDelays bounds what watching costs: two microseconds a thread and step.
const maxDelays = 16

// longest returns how long a thread waited since the last call with restart, the one that
// waited longest.
func (d *delays) longest(restart bool) (time.Duration, error) {
	var most time.Duration
	for i := range d.threads {
		t := &d.threads[i]
		total, err := t.read()
		if err != nil {
			return 0, err
		}
		most = max(most, total-t.total)
		if restart {
			t.total = total
		}
	}
	return most, nil
}

// read is how long the thread waited in its life, the second of three numbers. A kernel
// that does not count it has zeros.
func (t *threadDelay) read() (time.Duration, error) {
	var line [80]byte
	n, _ := t.file.ReadAt(line[:], 0) // io.EOF behind the line
	fields := bytes.Fields(line[:n])
	if len(fields) != 3 || string(fields[2]) == "0" {
		return 0, fmt.Errorf("%s holds %q", t.file.Name(), line[:n])
	}
	ns, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(ns), err
}

func (d *delays) close() {
	for _, t := range d.threads {
		_ = t.file.Close() // read only
	}
	d.threads = nil
}

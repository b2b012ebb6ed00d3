//go:build !race

package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

var errRefused = errors.New("refused")

// atMost is a hold that refuses what exceeds so many bytes, and counts.
func atMost(limit int64, held *int64) func(int64) error {
	return func(n int64) error {
		if *held+n > limit {
			return errRefused
		}
		*held += n
		return nil
	}
}

// Bodies of small values, which take many times their text.
func manyTools(n int) string {
	return `{"request_id":"r","inputs":[{"id":1,"instruction":{"type":"user","content":""},"tools":[` + strings.Repeat("{},", n-1) + `{}]}]}`
}

func manySteps(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"id":%d,"input":{"id":1,"instruction":{"type":"user","content":""}},"output":{}}`, i)
	}
	return `{"run_id":"a","request_id":"b","kind":"failure","stage":"","target_step_id":1,"reinjection_points":[],"trajectory":[` + b.String()[1:] + `]}`
}

func manyPoints(n int) string {
	return strings.Replace(manySteps(2), `"reinjection_points":[]`, `"reinjection_points":[`+func() string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"id":"%d","input":{"id":1,"instruction":{"type":"user","content":""}}}`, i)
		}
		return b.String()[1:]
	}()+`]`, 1)
}

func manyErrors(n int) string {
	return strings.Replace(manySteps(2), `"stage"`, `"active_errors":[`+strings.Repeat("0,", n-1)+`0],"stage"`, 1)
}

var heldBodies = map[string]struct {
	body   string
	decode func(body []byte, hold func(int64) error) (value any, held int, err error)
}{
	"tools":       {manyTools(300_000), decodeRequest},
	"one text":    {`{"request_id":"r","inputs":[{"id":1,"instruction":{"type":"user","content":"` + strings.Repeat("x", 4<<20) + `"}}]}`, decodeRequest},
	"white space": {`{"request_id":"r", ` + strings.Repeat(" ", 4<<20) + `"inputs":[{"id":1,"instruction":{"type":"user","content":""}}]}`, decodeRequest},
	"steps":       {manySteps(50_000), decodeCoaching},
	"points":      {manyPoints(50_000), decodeCoaching},
	"errors":      {manyErrors(300_000), decodeCoaching},
}

func decodeRequest(body []byte, hold func(int64) error) (any, int, error) {
	return DecodeWithin[AgentRequest](body, MaxDepth, hold)
}

func decodeCoaching(body []byte, hold func(int64) error) (any, int, error) {
	return DecodeWithin[SpecializedCoachingRequest](body, MaxDepth, hold)
}

// liveBytes is Go's heap without garbage.
func liveBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestDecodedValuesHoldNoMoreThanCounted(t *testing.T) {
	for name, test := range heldBodies {
		t.Run(name, func(t *testing.T) {
			before, asked := liveBytes(), int64(0)
			value, held, err := test.decode([]byte(test.body), atMost(1<<40, &asked))
			if err != nil {
				t.Fatal(err)
			}
			took := liveBytes() - before
			runtime.KeepAlive(value)
			if took > int64(held)+1<<20 {
				t.Errorf("it takes %d bytes, and %d are counted", took, held)
			}
			if asked+int64(len(test.body)) < took {
				t.Errorf("it takes %d bytes, and asked for %d beside the body", took, asked)
			}
		})
	}
}

func TestDecodingStopsWhereMemoryIsRefused(t *testing.T) {
	for name, test := range heldBodies {
		t.Run(name, func(t *testing.T) {
			body := []byte(test.body)
			held, before := int64(0), liveBytes()
			// The copy without white space has room, the values have not.
			value, _, err := test.decode(body, atMost(int64(len(body))+1<<10, &held))
			if name == "white space" { // 64 KiB are asked for at once
				_, _, err = test.decode(body, atMost(int64(len(body))-1, new(int64)))
			}
			if !errors.Is(err, errRefused) {
				t.Fatalf("got %v", err)
			}
			if took := liveBytes() - before; took > int64(len(body))+8<<20 {
				t.Errorf("it took %d bytes", took)
			}
			runtime.KeepAlive(value)
		})
	}
}

func TestWrittenResponseEqualsAppendedOne(t *testing.T) {
	long := Raw(`{"a":"` + strings.Repeat("m", 10_000) + `"}`)
	outs := []AgentOutput{
		{RequestID: "r\n", SourceID: 1, Status: StatusCompleted, Memory: long, InternalSteps: []Raw{Raw(`{}`), long, Raw(`{"b":1}`)},
			Output: &AgentDecision{Say: strings.Repeat("s", 9000)}},
		{RequestID: "r", SourceID: 1, CandidateIndex: 1, Status: StatusError, Error: &AgentError{Code: "c", Message: "m"}},
		{RequestID: "r", SourceID: 2, Status: StatusCompleted, Memory: Raw(`{}`), Output: &AgentDecision{ToolCalls: []ToolCall{{Name: "n", Arguments: long, TargetRobotName: "t"}}}},
	}
	for n := range len(outs) + 1 {
		var written bytes.Buffer
		if err := WriteResponse(&written, outs[:n]); err != nil {
			t.Fatal(err)
		}
		if want := AgentOutputs(outs[:n]).AppendJSON(nil); !bytes.Equal(written.Bytes(), want) {
			t.Errorf("%d candidates: got %.200s, want %.200s", n, &written, want)
		}
	}
}

// failing takes so many bytes.
type failing struct{ room int }

func (f *failing) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errRefused
	}
	return len(p), nil
}

func TestWritingResponseEndsAtTheFirstError(t *testing.T) {
	out := AgentOutput{Memory: Raw(`{"a":"` + strings.Repeat("m", 10_000) + `"}`), Status: StatusCompleted, Output: &AgentDecision{}}
	outs := []AgentOutput{out, out, out}
	for _, room := range []int{0, 100, 10_050, 25_000} {
		if err := WriteResponse(&failing{room}, outs); !errors.Is(err, errRefused) {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
}

func TestSharedMemoryOfCandidatesCountsOnce(t *testing.T) {
	memory, step := Raw(`{"a":"`+strings.Repeat("m", 10_000)+`"}`), Raw(`{"b":"`+strings.Repeat("m", 5000)+`"}`)
	same := AgentOutput{Memory: memory, InternalSteps: []Raw{step}}
	heldBytes := func(outs ...AgentOutput) int {
		_, held := ResponseBytes(outs)
		return held
	}
	if one, many := heldBytes(same), heldBytes(same, same, same); many-one > 4096 {
		t.Errorf("one candidate holds %d bytes, three equal ones %d", one, many)
	}
	other := AgentOutput{Memory: bytes.Clone(memory), InternalSteps: []Raw{bytes.Clone(step)}}
	if got := heldBytes(same, other); got < 2*(len(memory)+len(step)) {
		t.Errorf("two candidates hold %d bytes", got)
	}
}

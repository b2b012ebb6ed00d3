package target

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// headerTiming of agentd's answers: queue;dur=1.2, ttft;dur=34.5
const headerTiming = "Server-Timing"

// maxMillis bounds a duration, at about 31 years.
const maxMillis = 1e12

// parseTTFT reads TTFT from the headers as agentd writes them; -1 if it is missing.
func parseTTFT(values []string) (time.Duration, error) {
	for metric := range strings.SplitSeq(strings.Join(values, ","), ",") {
		dur, found := strings.CutPrefix(strings.TrimSpace(metric), "ttft;dur=")
		if !found {
			continue
		}
		ms, err := strconv.ParseFloat(dur, 64)
		if err != nil || bad(ms) {
			return -1, fmt.Errorf("%s: dur of ttft is %.40q, want milliseconds", headerTiming, dur)
		}
		return millis(ms), nil
	}
	return -1, nil
}

func bad(ms float64) bool { return !(ms >= 0 && ms <= maxMillis) }

// millis is a duration of at most maxMillis.
func millis(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}

package load

import (
	"fmt"
	"strings"
	"testing"

	"agentd/llama"
)

func TestHeadroomIsCheckedAtEachPlace(t *testing.T) {
	const mb = 1_000_000
	both := []llama.Placement{{Device: "CPU", Weights: 10 * mb}, {Device: "CUDA0", Weights: 60 * mb, Memory: 30 * mb, Compute: 10 * mb}}
	for name, tc := range map[string]struct {
		need []llama.Placement
		free FreeMemory
		want string // "": it fits
	}{
		"all fits":                     {both, FreeMemory{"CPU": 20 * mb, "CUDA0": 200 * mb}, ""},
		"exactly with the reserve":     {both, FreeMemory{"CPU": 20 * mb, "CUDA0": 105 * mb}, ""},
		"a reserve too little":         {both, FreeMemory{"CPU": 20 * mb, "CUDA0": 104 * mb}, "about 105 MB of memory on CUDA0 beside the present ones, and 104 MB are free there; fix"},
		"the host is full":             {both, FreeMemory{"CPU": 5 * mb, "CUDA0": 200 * mb}, "about 11 MB of memory on CPU beside the present ones, and 5 MB"},
		"unknown memory":               {both, FreeMemory{"CPU": 0, "CUDA0": 0}, ""},
		"one name for several devices": {[]llama.Placement{{Device: "Meta", Weights: 100 * mb}}, FreeMemory{"CPU": 1, "CUDA0": 60 * mb, "CUDA1": 60 * mb}, ""},
		"several devices, too small":   {[]llama.Placement{{Device: "Meta", Weights: 100 * mb}}, FreeMemory{"CPU": 1, "CUDA0": 40 * mb, "CUDA1": 60 * mb}, "100 MB are free"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.free.check(tc.need, "fix")
			if got := fmt.Sprint(err); (err == nil) != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

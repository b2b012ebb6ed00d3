package llama

import (
	"os/exec"
	"strings"
	"testing"
)

// Go does not notice that a C++ source has changed; make builds the library again.
func TestLibraryIsNotOlderThanItsSources(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "bash", "-c", ". ../third_party/common.sh && native_id").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(nativeStamp, nativeID()) {
		t.Errorf("this test was built for the library %s, and linked with that of sources %s", nativeStamp, nativeID())
	}
	if want := strings.TrimSpace(string(out)); nativeID() != want {
		t.Errorf("lib/libagentd-native.a was built from sources %s, these are %s: run make", nativeID(), want)
	}
}

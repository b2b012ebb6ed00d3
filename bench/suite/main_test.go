package suite

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// fakeProgram in the environment makes the test binary play a server of this kind, or
// llama-batched-bench.
const fakeProgram = "SUITE_TEST_FAKE"

func TestMain(m *testing.M) {
	if how := os.Getenv(fakeProgram); how != "" {
		fakeMain(how, os.Args[1:])
		return
	}
	goleak.VerifyTestMain(m)
}

func argument(args []string, names ...string) string {
	for i, a := range args[:len(args)-1] {
		if slices.Contains(names, a) {
			return args[i+1]
		}
	}
	return ""
}

func fakeMain(how string, args []string) {
	if slices.Contains(args, "--output-format") {
		// Flash attention fails. A unified cache is fastest at a shared prompt.
		if argument(args, "-fa") == "auto" {
			fmt.Println("no flash attention here")
			os.Exit(5)
		}
		prefill := 1000
		if slices.Contains(args, "-kvu") && slices.Contains(args, "-pps") {
			prefill = 2000
		}
		for _, width := range strings.Split(argument(args, "-npl"), ",") {
			n, _ := strconv.Atoi(width)
			fmt.Printf("{\"n_threads\": 2, \"is_pp_shared\": 1, \"pp\": 100, \"tg\": 8, \"pl\": %d, \"speed_pp\": %d.0, \"speed_tg\": %d.0}\n", n, prefill, 100*n)
		}
		return
	}
	switch how {
	case "broken":
		fmt.Println("reading the model")
		fmt.Println("it is not a model")
		os.Exit(3)
	case "deaf": // to SIGTERM
		signal.Ignore(syscall.SIGTERM)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(argument(args, "--host"), argument(args, "--port")))
	if err != nil {
		fmt.Println(err)
		os.Exit(4)
	}
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if how == "loading" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) {
		fmt.Println("out of memory")
		os.Exit(5)
	})
	http.HandleFunc("/work", toil)
	http.HandleFunc("/args", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(args) })
	fmt.Println(http.Serve(l, nil))
}

// self is the test binary as a fake of this kind.
func self(t *testing.T, how string) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(fakeProgram, how)
	return path
}

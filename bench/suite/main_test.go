package suite

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// fakeProgram in the environment makes the test binary play a server of this kind.
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

package report

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var (
	rewrite = flag.Bool("rewrite", false, "rewrite testdata")
	pageOut = flag.String("page", "", "write the tests' page to this file, to look at it")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

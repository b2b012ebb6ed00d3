package report

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var (
	rewrite  = flag.Bool("rewrite", false, "rewrite testdata")
	plotsOut = flag.String("plots", "", "write the plots to this file, to look at them")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

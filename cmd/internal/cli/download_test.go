package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestDownloadsAreLoggedEachTenSeconds(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1_000_000, 0)
	report := progressLog(zerolog.New(&log), func() time.Time { return now })
	for i := range 25 { // seconds
		report("a.gguf", int64(i), 100)
		now = now.Add(time.Second)
	}
	report("a.gguf", 100, 100)
	report("b.gguf", 0, 7)
	var got []string
	for line := range strings.Lines(log.String()) {
		got = append(got, strings.TrimSpace(line))
	}
	line := func(file, done, size string) string {
		return `{"level":"info","file":"` + file + `","bytes":` + done + `,"of":` + size + `,"message":"downloading"}`
	}
	want := []string{line("a.gguf", "0", "100"), line("a.gguf", "10", "100"), line("a.gguf", "20", "100"), line("a.gguf", "100", "100"), line("b.gguf", "0", "7")}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestBarOfADownloadIsCleared(t *testing.T) {
	var out bytes.Buffer
	bar := downloadBar{out: &out}
	bar.clear()
	bar.progress("a.gguf", 0, 1000)
	bar.progress("a.gguf", 500, 1000)
	bar.clear()
	if !strings.Contains(out.String(), "a.gguf") || strings.TrimSpace(out.String()[strings.LastIndex(out.String(), "\r"):]) != "" {
		t.Errorf("got %q", out.String())
	}
}

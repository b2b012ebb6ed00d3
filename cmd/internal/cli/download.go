package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"

	"agentd/cmd/internal/hub"
)

// Times of the report of a download.
const (
	progressEvery = 10 * time.Second       // of log lines
	drawEvery     = 100 * time.Millisecond // of the bar
)

// Download gets a model of the hub that the environment names, and returns its path. It
// reports how far it is: a bar on a terminal, a log line each 10 s elsewhere.
func Download(ctx context.Context, name hub.Name, stderr io.Writer, log zerolog.Logger) (path string, err error) {
	h, err := hub.New(os.Getenv)
	if err != nil {
		return "", err
	}
	defer h.Close()
	h.Log, h.Progress = log, progressLog(log, time.Now)
	if IsTerminal(stderr) {
		bar := new(downloadBar{out: stderr})
		defer bar.clear()
		h.Progress = bar.progress
	}
	return h.Get(ctx, name)
}

// progressLog logs the begin and the end of a file, and how far it is in between.
func progressLog(log zerolog.Logger, now func() time.Time) func(file string, done, size int64) {
	var current string
	var last time.Time
	return func(file string, done, size int64) {
		if file == current && done < size && now().Sub(last) < progressEvery {
			return
		}
		current, last = file, now()
		log.Info().Str("file", file).Int64("bytes", done).Int64("of", size).Msg("downloading")
	}
}

// downloadBar is a bar for each file.
type downloadBar struct {
	out  io.Writer
	file string
	bar  *progressbar.ProgressBar
}

func (b *downloadBar) progress(file string, done, size int64) {
	if file != b.file {
		b.clear()
		b.file = file
		b.bar = progressbar.NewOptions64(size,
			progressbar.OptionSetWriter(b.out),
			progressbar.OptionSetDescription(file),
			progressbar.OptionShowBytes(true),
			progressbar.OptionShowTotalBytes(true),
			progressbar.OptionThrottle(drawEvery),
			progressbar.OptionClearOnFinish(),
		)
	}
	_ = b.bar.Set64(done) // a bar that cannot be drawn is not a reason to stop
}

func (b *downloadBar) clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}

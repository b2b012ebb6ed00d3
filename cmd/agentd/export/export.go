// Package export is the command that makes training data of what agents decided.
package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agentd/cmd/agentd/export/rows"
	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/coaching/console"
	"agentd/internal/base/version"
	"agentd/protocol"
)

// maxList bounds the lists of the filters.
const maxList = 64

// Config is all settings of the command.
type Config struct {
	Rows    rows.Config
	Console string // data directory
	Out     string
}

// DefaultConfig applies when a user sets nothing.
func DefaultConfig() *Config { return &Config{Rows: rows.Config{Kind: rows.Chat}} }

const (
	intro = `agentd export makes training data of what agents decided: chat messages for fine-tuning, pairs of
a better and a worse answer, or tokens with their logprobs. docs/data.md has the details.

Usage
  agentd export [options] PATH...

A PATH is a file of exchanges (.jsonl) or a pipe with them, - for standard input, a folder in which
magma-gen saved a run, or a folder with such files and folders.

Examples
  agentd export --outcome success --out chat.jsonl runs      # for supervised fine-tuning
  agentd export --kind pairs --out pairs.parquet output/my_run --console ~/.local/share/agentd/console
  agentd export --kind rollouts --outcome success,failure --out rollouts.parquet exchanges.jsonl
`
	outro = `Values of a filter are separated by commas. Without a filter everything is taken. For pairs, the
filters look at the better answer. What was read and left out is counted on standard error.
`
)

// Command is the command line that fills c.
func (c *Config) Command() *options.Command {
	what, filter := options.In("What to write"), options.In("Filters")
	words := func(p *[]string, known ...string) options.Value { return options.List(p, maxList, known...) }
	return &options.Command{
		Name: "agentd export", Version: version.Line("agentd"), Intro: intro, Outro: outro, Arguments: true,
		Options: []options.Option{
			what("kind", "KIND", "chat, pairs or rollouts.", options.Choice(&c.Rows.Kind, []string{rows.Chat, rows.Pairs, rows.Rollouts}, nil)),
			what("out", "FILE", "File to write, in the format Parquet if it ends in .parquet, else JSONL. It must not exist. Without it, JSONL goes to standard output.", options.Text(&c.Out)),
			what("console", "DIR", "Data directory of a console that does not run, whose corrections are exported too.", options.Text(&c.Console)),
			filter("origin", "LIST", "Who answered: model or coaching.", words(&c.Rows.Origins, protocol.OriginModel, protocol.OriginCoaching)),
			filter("component", "LIST", "Component of the internal step, such as commander or summarizer.", words(&c.Rows.Components)),
			filter("status", "LIST", "Status of the candidate: completed or error.", words(&c.Rows.Statuses, protocol.StatusCompleted, protocol.StatusError)),
			filter("outcome", "LIST", "What became of the candidate: success, failure, unknown, or another word of the exchanges.", words(&c.Rows.Outcomes)),
		},
	}
}

// Run is the command.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c := DefaultConfig()
	_, paths, err := c.Command().Parse(args, os.LookupEnv, stdout)
	if err != nil {
		return err
	}
	c.Rows.Format = rows.JSONL
	if strings.EqualFold(filepath.Ext(c.Out), ".parquet") {
		c.Rows.Format = rows.Parquet
	}
	if len(paths) == 0 && c.Console == "" {
		return errors.New("nothing to export; name files or folders, or use --console")
	}
	if err := cli.Absent("--out", c.Out); err != nil {
		return err
	}
	sources, err := Sources(paths, c.Console)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	var summary *rows.Summary
	write := func(w io.Writer) (err error) {
		if summary, err = rows.Run(ctx, sources, c.Rows, w); err == nil {
			err = summary.NothingMatches(c.Rows)
		}
		if err == nil && summary.Rows == 0 && c.Out != "" {
			err = errors.New("--out: no input gave a row, as the lines above say")
		}
		return err
	}
	err = Write(c.Out, stdout, write)
	if summary != nil {
		fmt.Fprintln(stderr, summary)
	}
	return err
}

// Sources are those at paths, and what people corrected at the console with a data directory; "": none. Errors name the
// option.
func Sources(paths []string, dir string) (*rows.Sources, error) {
	s, err := rows.Open(paths)
	if err != nil || dir == "" {
		return s, err
	}
	s.AddSituations(func(f func(*rows.Situation) error) error {
		err := console.EachCorrected(filepath.Join(dir, "console.db"), func(task *console.Corrected) error {
			list, err := rows.Corrections("console:"+task.ID, task.Request, task.Proposals)
			for _, s := range list {
				s.Person = task.Person
				if err := f(s); err != nil {
					return err
				}
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("--console: %w", err)
		}
		return nil
	})
	return s, nil
}

// Write writes to stdout if path is "". Else it writes beside the file and renames, so that the file is whole.
func Write(path string, stdout io.Writer, write func(io.Writer) error) (err error) {
	if path == "" {
		return write(stdout)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	buffered := bufio.NewWriter(f)
	if err = errors.Join(write(buffered), buffered.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

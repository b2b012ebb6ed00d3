package learn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"agentd/cmd/agentd/internal/cli"
	"agentd/cmd/agentd/serve"
	rounds "agentd/defaultmodel/learn"
	"agentd/defaultmodel/train"
)

// maxNewTokens is more than twice the longest decision.
const maxNewTokens = 256

// Run is the command.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stdout)
	if err != nil {
		return err
	}
	unlock, err := rounds.Lock(c.Rounds.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	begin := time.Now()
	c.Rounds.Log = func(format string, args ...any) {
		fmt.Fprintf(stdout, "%6s  "+format+"\n", append([]any{time.Since(begin).Round(time.Second)}, args...)...)
	}
	c.Rounds.Serve = func(ctx context.Context, model string) (rounds.Server, error) { return c.serve(ctx, model, stderr) }
	program := []string{c.Trainer}
	if c.Trainer == "" {
		if program, err = c.lora(ctx); err != nil {
			return err
		}
	}
	c.Rounds.Train = func(ctx context.Context, t rounds.Training) error { return c.train(ctx, program, t, stdout, stderr) }
	report, err := rounds.Run(ctx, c.Rounds)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted; the same command goes on from here: %w", err)
		}
		return err
	}
	fmt.Fprintf(stdout, "\n%s\nServe the best weights: agentd --model %s\n", report.Table(), report.Best)
	return nil
}

// serve starts a server with a model.
func (c *Config) serve(ctx context.Context, model string, stderr io.Writer) (s rounds.Server, err error) {
	config := *serve.DefaultConfig()
	config.Log = c.Log
	config.Inference.Path, config.Inference.Threads = model, c.Threads
	config.Inference.Agent.MaxNewTokens = maxNewTokens
	local, err := serve.StartLocal(ctx, config, stderr)
	if err != nil {
		return s, err
	}
	transport := cli.NewTransport(c.Rounds.Clients)
	remote := cli.Remote{URL: local.URL}
	agent, err := remote.Open(ctx, transport)
	if err != nil {
		return s, errors.Join(err, local.Stop())
	}
	return rounds.Server{Agent: agent, Stop: func() error {
		transport.CloseIdleConnections()
		return local.Stop()
	}}, nil
}

// lora is the command of the own trainer, which it writes into the directory. It checks
// that Python has the packages.
func (c *Config) lora(ctx context.Context) ([]string, error) {
	program, requirements, err := train.WriteLora(filepath.Join(c.Rounds.Dir, "trainer"))
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	environment := filepath.Join(cache, "agentd", "train", "venv")
	python := c.Python
	if python == "" {
		if python = filepath.Join(environment, "bin", "python"); !isFile(python) {
			python = "python3"
		}
	}
	if out, err := exec.CommandContext(ctx, python, program, "--help").CombinedOutput(); err != nil { //nolint:gosec // the user names it
		return nil, fmt.Errorf("%s cannot run the trainer: %w\n%s\nInstall what it needs:\n  python3 -m venv %s\n  %s/bin/pip install -r %s",
			python, err, out, environment, environment, requirements)
	}
	return []string{python, program}, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// train runs a trainer to its end.
func (c *Config) train(ctx context.Context, program []string, t rounds.Training, stdout, stderr io.Writer) error {
	args := append(program[1:len(program):len(program)], "--model", t.Model, "--out", t.Out,
		"--minutes", strconv.Itoa(t.Minutes), "--threads", strconv.Itoa(c.Threads), "--name", fmt.Sprintf("agentd household, round %d", t.Round))
	for _, path := range t.Rows {
		args = append(args, "--rows", path)
	}
	for _, path := range t.Tokens {
		args = append(args, "--tokens", path)
	}
	command := exec.CommandContext(ctx, program[0], args...) //nolint:gosec // the user names it
	command.Stdout, command.Stderr = stdout, stderr
	// The C library would give large blocks back to the system and get them zeroed again.
	command.Env = append(os.Environ(), "MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=100000000000", "MALLOC_TOP_PAD_=268435456")
	if err := command.Run(); err != nil {
		return fmt.Errorf("the trainer failed: %w", err)
	}
	return nil
}

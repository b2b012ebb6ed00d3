// Command orchestrator lets an agent server direct two simulated robots through
// a household task. When a step fails it asks for coaching, puts the correction
// into the same input once more, and goes on with the memory that comes back.
//
// It needs an agent server with coaching and a coach. `make example` starts both
// and then this program; it can as well be pointed at others:
//
//	go run ./examples/coaching/orchestrator --agent http://127.0.0.1:8888 --human http://127.0.0.1:8890
//
// orchestrator.py is the same in Python.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"agentd/examples/coaching/household"
	"agentd/protocol"
	"agentd/protocol/client"
)

func main() {
	// The first Ctrl-C ends the task in good order, with the session deleted.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "\nThe task is not finished: %v\n", err)
		os.Exit(1)
	}
}

// orchestrator is one run of the task.
type orchestrator struct {
	agent *client.Client
	runID string
	logs  string // directory of the coaching logs
	out   io.Writer

	about      *household.Description
	house      household.House
	memory     protocol.Raw              // the agent's, as it last came back
	trajectory []protocol.TrajectoryStep // what was done so far
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("orchestrator", flag.ContinueOnError)
	agentURL := flags.String("agent", cmp.Or(os.Getenv("AGENTD_URL"), "http://127.0.0.1:8888"), "`URL` of the agent server")
	coachURL := flags.String("coach", cmp.Or(os.Getenv("COACH_URL"), "http://127.0.0.1:8889/v1"), "`URL` of a coach that speaks OpenAI's chat completions")
	model := flags.String("coach-model", cmp.Or(os.Getenv("COACH_MODEL"), "scripted"), "`name` of the coach's model")
	human := flags.String("human", "", "`URL` of a console, such as agentd console: a person is the coach")
	logs := flags.String("logs", filepath.Join(os.TempDir(), "agentd-coaching-logs"), "`directory` that the coaching logs go to")
	if err := flags.Parse(args); err != nil {
		return err
	}

	about, err := household.Describe()
	if err != nil {
		return err
	}
	agent, err := client.New(*agentURL)
	if err != nil {
		return err
	}
	runID := "household-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	o := &orchestrator{agent: agent, runID: runID, logs: filepath.Join(*logs, runID), out: out,
		about: about, house: household.New(about), memory: protocol.Raw(`{}`)}
	for _, rule := range about.Rules {
		rules, _ := protocol.Get(o.memory, "memory_list")
		o.memory = protocol.SetMember(o.memory, "memory_list", protocol.AppendElements(rules, protocol.String(rule)))
	}

	if err := o.waitUntilReady(ctx); err != nil {
		return err
	}

	// A run's session says who coaches. It is configured before the first request for coaching.
	config := protocol.NewCoachingSessionConfig()
	coach := *model + " at " + *coachURL
	if *human != "" {
		coach = "a person at " + *human
		config.Provider, config.Endpoint = protocol.ProviderHuman, *human
	} else {
		backend := protocol.NewCoachingBackend("coach", protocol.BackendOpenAI)
		backend.Endpoint, backend.DefaultModel = *coachURL, *model
		config.Backends = append(config.Backends, backend)
	}
	if err := agent.PutCoachingSession(ctx, runID, config); err != nil {
		return err
	}
	fmt.Fprintf(out, "The run %s: the agent is at %s, the coach is %s.\n\n", runID, *agentURL, coach)

	err = o.task(ctx)

	// The session is deleted whatever became of the task, after Ctrl-C too.
	return errors.Join(err, agent.DeleteCoachingSession(context.WithoutCancel(ctx), runID))
}

// waitUntilReady waits for a server that is still loading its model.
func (o *orchestrator) waitUntilReady(ctx context.Context) error {
	for {
		health, err := o.agent.Health(ctx)
		if err != nil {
			return err
		}
		if health.Status == protocol.HealthReady {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	info, err := o.agent.Info(ctx)
	if err == nil && !info.Capabilities[protocol.CapabilityCoaching] {
		err = fmt.Errorf("the agent server does not coach: %s", info.CoachingUnavailableReason)
	}
	return err
}

// Package serve is the command that starts the server: its options, and one run from a
// Config to the program's exit.
package serve

import (
	"time"

	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/coaching"
	"agentd/inference/load"
	"agentd/internal/base/version"
	"agentd/server"
)

// Config is all settings of the server. The options fill the fields of the packages'
// own configurations directly; see [Config.Command].
type Config struct {
	// Inference is the model, the scheduler and the agent. Agent.Prompt.ChatTemplate may
	// be a file's name until the model is loaded.
	Inference load.Config
	// Coaching are the sessions. The daemon sets Policy, Registerer and Log.
	Coaching coaching.Options
	// Server is the HTTP server. The daemon sets what is not filled by an option.
	Server server.Options
	// HTTP is where the server listens.
	HTTP cli.HTTP
	Log  cli.Log

	HF            string // model of a hub that is served in place of Inference.Path; "": none
	Ask           Ask    // coaches who choose where the model is unsure
	NoCoaching    bool
	Store         string        // database of coaching sessions; "": memory
	StoreKeyFile  string        // keys that encrypt them there
	CoachingAllow []string      // hosts and networks of coaches; none: egress's default
	DrainTimeout  time.Duration // of work in flight when the server ends
	StuckExit     bool          // a step that does not end ends the process
	Pprof         string        // loopback address of Go profiles; "": off
	File          string        // the configuration file
}

// Ask is a calibration and how it is used.
type Ask struct {
	File  string        // of agentd calibrate; "": nobody is asked
	Error float64       // rate of decisions whose set lacks the right option
	Wait  time.Duration // for a coach
}

// DefaultConfig is the lowest layer: what holds when a user sets nothing.
func DefaultConfig() *Config {
	return &Config{
		Inference: load.DefaultConfig(),
		Coaching: coaching.Options{
			People:      coaching.People{When: coaching.PeopleFirst},
			Workers:     coaching.DefaultWorkers,
			Queue:       coaching.DefaultQueue,
			MaxSessions: coaching.DefaultMaxSessions,
			MaxSteps:    coaching.DefaultMaxSteps,
		},
		Server:       server.Options{Info: agentInfo(version.Release), LoadingWait: defaultLoadingWait, Completions: true},
		Ask:          Ask{Error: defaultAskError, Wait: defaultAskWait},
		HTTP:         cli.HTTP{Host: "127.0.0.1", Port: DefaultPort},
		Log:          cli.Log{Level: "info", Format: "console"},
		DrainTimeout: defaultDrainTimeout,
	}
}

// Validate checks what single values cannot show: files that must exist, and options that
// need or exclude each other. It reports all problems, each under the name its user gave
// it.
func (c *Config) Validate(from options.Origins) error {
	p := options.Problems{From: from}
	c.checkModel(&p)
	c.checkWeights(&p)
	c.checkAgent(&p)
	c.checkSpeed(&p)
	c.checkEngine(&p)
	c.HTTP.Check(&p)
	c.checkCoaching(&p)
	c.checkAsk(&p)
	c.checkFiles(&p)
	return p.Err()
}

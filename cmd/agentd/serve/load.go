package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentd/agent"
	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/hub"
	"agentd/inference/live"
	"agentd/internal/base/version"
	"agentd/llama"
	"agentd/protocol"
	"agentd/server/ask"
)

// agentID names this kind of agent in the protocol's registry of agents.
const agentID = "full-history-agent"

// coachingOff is the reason in /v1/info for coaching that is switched off.
const coachingOff = "specialized coaching is switched off on this server (--coaching off); corrections through /v1/responses work"

// agentInfo describes the agent in /v1/info.
func agentInfo(agentVersion string) protocol.AgentInfo {
	return protocol.AgentInfo{
		ProtocolVersion: protocol.Version,
		AgentID:         agentID,
		AgentVersion:    agentVersion,
		Capabilities:    map[string]bool{protocol.CapabilityInference: true},
		CoachingResume:  true,
	}
}

// info is the body of /v1/info.
func (d *Daemon) info() protocol.AgentInfo {
	info := agentInfo(d.config.Server.Info.AgentVersion)
	info.Capabilities[protocol.CapabilityCoaching] = d.coaching != nil
	switch {
	case d.coaching != nil:
		info.SpecializedCoaching = protocol.CoachingKinds()
		info.CoachingSessionVersion = protocol.CoachingSessionVersion
	case d.config.summarizes():
		info.AgentID = summarizedAgentID
		info.CoachingResume = false
		info.CoachingUnavailableReason = noCoaching
	default:
		info.CoachingUnavailableReason = coachingOff
	}
	return info
}

// loadModel opens the model of the configuration. Errors name options.
func (d *Daemon) loadModel(ctx context.Context) (Model, error) {
	c := d.config
	template, err := templateText(c.Inference.Agent.Prompt.ChatTemplate)
	if err != nil {
		return nil, fmt.Errorf("--chat-template: %w", err)
	}
	config := c.Inference
	switch {
	case c.HF != "":
		name, err := hub.Parse(c.HF)
		if err == nil {
			config.Path, err = cli.Download(ctx, name, d.stderr, d.log)
		}
		if err != nil {
			return nil, fmt.Errorf("--hf: %w", err)
		}
	case config.Path == "":
		d.log.Info().Msg("serving the default model, which decides for robots in small simulated households and knows nothing else; agentd demo shows it, and --model serves another one")
	}
	config.Agent.Prompt.ChatTemplate = template
	config.Progress, config.Hangs, config.Log, config.Build = d.progress(), d.server.LoadHangs, d.log, version.Line("agentd")
	if config.Agent.Ask, err = c.ask(); err != nil {
		return nil, fmt.Errorf("--ask: %w", err)
	}
	service, err := live.Open(ctx, config)
	if errors.As(err, new(*agent.CalibrationError)) {
		return nil, fmt.Errorf("--ask: %w", err)
	}
	if err != nil {
		named := withHint(c.Command().NameFields(&c.Inference, err))
		if strings.HasPrefix(err.Error(), "Config.Prompt.") { // what the model can't have, at no start
			return nil, &wrongSetting{named}
		}
		return nil, named
	}
	var coach ask.Coach
	if d.coaching != nil { // an interface of a nil pointer is not nil
		coach = d.coaching
	}
	asker, err := ask.New(coach, c.Ask.Wait, d.registry)
	if err != nil {
		return nil, errors.Join(err, service.Close())
	}
	return asking{served{service}, asker}, nil
}

// withHint adds the option that avoids the problem, where there is one.
func withHint(err error) error {
	if errors.Is(err, llama.ErrIncompatible) {
		return fmt.Errorf("%w; or run agentd with --debug cpu-attention=ggml", err)
	}
	return err
}

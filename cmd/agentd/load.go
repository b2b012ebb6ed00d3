package main

import (
	"context"
	"fmt"
	"strconv"

	"agentd/inference"
	"agentd/protocol"
)

// agentID names this kind of agent in the protocol's registry of agents.
const agentID = "full-history-agent"

// coachingOff is why /v1/coaching answers 503 when it does.
const coachingOff = "specialized coaching is switched off on this server (--coaching off); corrections through /v1/responses work"

// agentInfo is the body of /v1/info.
func agentInfo(version string, coached bool) protocol.AgentInfo {
	info := protocol.AgentInfo{
		ProtocolVersion: protocol.Version,
		AgentID:         agentID,
		AgentVersion:    version,
		Capabilities: map[string]bool{
			protocol.CapabilityInference: true,
			protocol.CapabilityCoaching:  coached,
		},
		CoachingResume: true,
	}
	if coached {
		info.SpecializedCoaching = protocol.CoachingKinds()
		info.CoachingSessionVersion = protocol.CoachingSessionVersion
	} else {
		info.CoachingUnavailableReason = coachingOff
	}
	return info
}

// loadModel opens the model that the configuration names.
func (d *daemon) loadModel(ctx context.Context) (model, error) {
	c := &d.config
	template, err := c.templateText()
	if err != nil {
		return nil, fmt.Errorf("--chat-template: %w", err)
	}
	split := make([]float32, len(c.TensorSplit))
	for i, share := range c.TensorSplit {
		x, err := strconv.ParseFloat(share, 32)
		if err != nil {
			return nil, fmt.Errorf("--tensor-split: %w", err)
		}
		split[i] = float32(x)
	}
	if c.Model == "" {
		d.log.Info().Msg("no --model: serving the default model, which decides for robots in small simulated households and knows nothing else; agentd demo shows it at work")
	}
	progress, finished := d.progress()
	defer finished()
	service, err := inference.Open(ctx, inference.Options{
		Path:               c.Model,
		Quantization:       c.Quantization,
		KVType:             c.DType,
		ContextLength:      c.ContextLength,
		Device:             c.Device,
		GPULayers:          c.GPULayers,
		TensorSplit:        split,
		Contexts:           c.Contexts,
		Reproducible:       c.Reproducible,
		CacheRAM:           uint64(c.CacheRAM) * 1e6,
		Parallel:           c.Parallel,
		DraftRows:          c.DraftRows,
		BatchSize:          c.BatchSize,
		Threads:            c.Threads,
		GGMLAttention:      c.CPUAttention == "ggml",
		QueueLimit:         c.QueueLimit,
		QueueTime:          c.QueueTime,
		Agent:              c.Agent,
		SummaryBudget:      c.SummaryBudget,
		SummaryCharacters:  c.SummaryUnit == unitCharacters,
		SummaryMaxTokens:   c.SummaryMaxTokens,
		SummaryKeep:        c.SummaryKeep,
		Format:             c.ModelFormat,
		ChatTemplate:       template,
		OutputStyle:        c.OutputStyle,
		Constrain:          c.Constrain,
		NoForcedTokens:     c.ForcedTokens == "off",
		NoPrefixCache:      c.PrefixCache == "off",
		MixedOutput:        c.MixedOutput,
		CallsPerRobot:      c.CallsPerRobot,
		NoRepetitionStop:   c.RepetitionStop == "off",
		DefaultRobot:       c.DefaultRobot,
		EnableThinking:     c.EnableThinking,
		ReasoningEffort:    c.ReasoningEffort,
		MaxNewTokens:       c.maxNewTokens(),
		FixedTokens:        c.FixedTokens,
		HistoryMaxMessages: c.HistoryMaxMessages,
		PromptLogDir:       c.PromptLogDir,
		Seed:               c.Seed,
		Temperature:        c.Temperature,
		TopP:               c.TopP,
		MinP:               c.MinP,
		TopK:               c.TopK,
		Progress:           progress,
		Log:                d.log,
		Build:              versionLine(),
	})
	if err != nil {
		return nil, err
	}
	return service, nil
}

// Package remote asks servers of models for completions: vLLM, llama-server, or another agentd
// (docs/engines.md). It is an engine beside package scheduler and shares its types.
//
// A request is one call, however many completions it has. The prompt goes as token ids, so a special
// token is where the agent put it and nowhere else. Grammars are the agent's GBNF without marks. Each
// completion is checked again by the [Model], token by token; one that fails is asked again.
//
// Each engine has a goroutine that asks it all the time whether it lives. One that does not answer gets
// no work, and its requests are asked elsewhere. It is compared again before it gets work, and so is one
// whose connection was replaced: another process may answer there.
package remote

// Package remote asks servers of models for completions: vLLM, SGLang, llama-server, or
// another agentd. It is an engine beside package scheduler and shares its types.
//
// A request is one call, however many completions it has. The prompt goes as token ids,
// so a special token is where the agent put it and nowhere else, and routers that hash
// ids find shared prefixes. Grammars are the agent's GBNF without marks. Each completion
// is checked again by the [Model], token by token; one that fails is asked again.
//
// Different completions are samples, drawn until enough of them differ.
//
// With several URLs, a request goes to the one that its session hashes to (rendezvous
// hashing), so that the session's prefixes stay on one engine. The next one takes it when
// the first is overloaded or unreachable.
//
// Each engine has a goroutine that asks it all the time whether it lives. One that does not
// answer gets no work, and its requests are asked elsewhere. It is compared again before it gets
// work, and so is one whose connection was replaced: another process may answer there.
//
// The wire formats follow vLLM 0.32 (OpenAI completions with extra fields), SGLang
// 0.5 (/generate) and llama.cpp's server (/completion).
package remote

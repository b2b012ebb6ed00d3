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
// # States of an engine
//
// Each engine has a goroutine that probes it. A new connection means that another process may
// answer, so the engine is compared again. A frozen engine accepts calls and does not end them.
//
//	unasked               gets work                      gets none
//	   |      +----------------------------+
//	   |      |          serving           |  gone, unfit
//	   |      | reconnected |    | missed  | -------------> out
//	   +----> |             v    |         | <-------------  ^
//	     fits |        replaced  |         |  fits           | moved
//	          |      missed |    |         |                 |
//	          |             v    v         |  silent, stalled|
//	          |          doubtful          | ------------> frozen
//	          |                            | <------------
//	          +----------------------------+  fits, and generated a token
//
// confirmed leads back to serving, and active from doubtful to replaced. An engine that is silent
// or unfit ends its calls, which are asked elsewhere. state.go has every transition.
//
// The wire formats follow vLLM 0.32 (OpenAI completions with extra fields), SGLang
// 0.5 (/generate) and llama.cpp's server (/completion).
package remote

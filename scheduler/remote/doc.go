// Package remote is an engine that gets completions from servers at URLs: vLLM, SGLang,
// llama-server, or another agentd. It has the types of package generation, like the embedded engine.
//
// A request with N completions is one call. The prompt is sent as token ids, so that special tokens are only where the
// agent put them, and routers that hash ids find shared prefixes. Grammars are the agent's GBNF without marks. The
// [Model] checks each token of a completion against the grammar; a completion that fails is generated again.
//
// With several URLs, a request goes to the one that its session hashes to (rendezvous
// hashing), so that the session's prefixes stay on one engine. The next one takes it when
// the first is overloaded or unreachable.
//
// # States of an engine
//
// A goroutine probes each engine. After a new connection another process may answer, so the
// engine's vocabulary is compared again. A frozen engine accepts calls and does not answer them.
//
//	unasked               gets work                      gets none
//	   |      +----------------------------+
//	   |      |          serving           |  gone, unfit
//	   |      | reconnected |    | missed  | -------------> out
//	   +----> |             v    |         | <-------------  ^
//	     fits |        replaced  |         |  fits           | progressed
//	          |      missed |    |         |                 |
//	          |             v    v         |  silent, stalled|
//	          |          doubtful          | ------------> frozen
//	          |                            | <------------
//	          +----------------------------+  fits, and generated a token
//
// confirmed leads back to serving, and active from doubtful to replaced. After silent and unfit, the
// calls in flight end and are sent to other engines. state.go has every transition.
//
// The wire formats follow vLLM 0.32 (OpenAI completions with extra fields), SGLang
// 0.5 (/generate) and llama.cpp's server (/completion).
package remote

// Package repair is the strategy of coaching. It turns a request into questions for
// coaches and their answers into proposals.
//
// A [Case] is one request. Its repairs, in this order:
//
//   - [Case.WithoutModel] rewrites an output that could not be read (kind format), if
//     it holds one complete and unambiguous decision in another notation.
//   - [Case.Question] asks a model, within a budget. [Case.Read] reads the answer, and
//     [Case.Retry] asks again after one that cannot be used.
//   - [Case.HumanRequest] asks a person, and [Case.ReadHuman] reads the answer.
//
// Package prompt writes the questions. Package parse reads answers, tolerant of their
// notation. Package check decides strictly whether a decision is valid at a point:
// every proposal matches the tools and robots there.
//
// All of them are pure: no network, no clock, no randomness. The work is bounded by
// the size of its input and by the constants in the files limits.go.
package repair

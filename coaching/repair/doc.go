// Package repair is the strategy of coaching: what a coach is shown and asked, how
// its answer is read, and what may leave the server as a proposal.
//
// A [Task] is one request. Repairs are tried in this order:
//
//   - An output that could not be read (kind format) is rewritten without any
//     model, if it holds one complete decision in another notation and can be
//     understood in one way only: [Task.WithoutModel].
//   - A model is asked a [Task.Question], within a budget: the objective, the
//     trajectory around the target step, what is wrong, the points and their
//     tools. [Task.Read] reads its answer, and [Task.Retry] tells it what is wrong
//     with one that can't be used.
//   - A person is asked by [Task.HumanRequest], and read by [Task.ReadHuman].
//
// Reading is tolerant of how an answer is written and strict about what it says:
// every proposal has passed [Task.Check] against the tools and robots of its
// point, and comes back from the wire as the same decision.
//
// The package is pure: no network, no clock, no randomness. The same request
// gives the same question, and whatever the request or the answer holds, the work
// is bounded by their size and the constants in limits.go.
package repair

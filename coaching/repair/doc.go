// Package repair is the strategy of coaching: it says what a coach is shown and
// asked, reads what it answers, and lets nothing out that was not checked.
//
// A [Task] is one request. Its [Task.WithoutModel] repairs an output that is
// merely written wrongly; [Task.Question] asks a model and [Task.Read] reads its
// answer; [Task.HumanRequest] and [Task.ReadHuman] do the same for a person.
// Whatever they propose has passed [Task.Check].
//
// The package is pure: no network, no clock, no randomness. The same request
// gives the same question.
package repair

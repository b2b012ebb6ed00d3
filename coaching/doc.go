// Package coaching answers requests for a repair of a step that went wrong. An
// orchestrator configures a session for a run, asks in it any number of times,
// and closes it; the coaches are models, tried in their order, or a person, or
// both where the server's operator names people.
//
// A [Service] holds the sessions. Every session has its own pool: slots for the
// requests in work, a bounded queue before them, and an HTTP client of its own,
// so that a session whose coach hangs takes nothing from the others and closing
// it leaves no goroutine, connection or descriptor behind. What a session is
// lives in a [Store]; what runs for it stays here.
//
// A repair that fails is a response and never an error: abandoned when a coach
// declined or gave no valid correction, error when none could be reached.
package coaching

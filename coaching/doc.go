// Package coaching answers requests to repair a step that went wrong. An orchestrator
// configures a session for a run, asks in it any number of times, and closes it. Coaches
// are models, tried in their order, or people, or both if the server's operator names
// people.
//
// A [Service] holds the sessions. Every session has its own pool: slots for running
// requests, a bounded queue, and an HTTP client. So a coach that hangs affects one session
// only, and closing it leaves no goroutine, connection or descriptor. A [Store]
// holds what a session is; what runs for it stays here.
//
// A failed repair is a response and never an error: abandoned if a coach declined or gave
// no valid correction, error if none could be reached.
package coaching

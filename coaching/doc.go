// Package coaching answers requests to repair a step that went wrong. An orchestrator configures a session for a run,
// sends any number of requests in it, and closes it. Coaches are models, asked in their order, or people, or both if
// the server's operator names people.
//
// A [Service] holds the sessions. Every session has its own pool: slots for running
// requests, a bounded queue, and an HTTP client. So a coach that hangs affects one session
// only, and closing it leaves no goroutine, connection or descriptor. A failed repair is a
// response and never an error: abandoned if a coach declined or gave no valid correction,
// error if none could be reached.
//
// Each package uses only packages after it:
//
//	coaching                  the service: sessions from PUT to DELETE, and their requests
//	coach                     which coaches are asked, in which order; their replies
//	logbook                   the Markdown log of a request
//	session                   what one session has in progress on this server
//	store, postgres           the existing sessions
//	repair/prompt             the question for a model, the task for a person
//	repair, repair/parse      the answer, read and checked
//	human, backend            one task for people; one call of a model with its retries
//	egress                    where the server may connect
//	internal/quote            clients' and models' texts in messages, without keys
//
// Package console is beside them: it is the page of an endpoint for people, which serves any
// agent. It uses repair and internal/quote only.
//
// Each file here uses only files after it: reach.go, request.go, service.go, room.go,
// options.go, metrics.go, errors.go, limits.go.
package coaching

// Package console serves human coaching: agents post tasks over the human coaching protocol,
// and people answer them on a web page.
//
// The console stores a task before anybody sees it, and an answer before it is delivered. So
// a restart loses nothing: the agent posts its request again and joins the same task. A person
// claims a task before they work on it. A claim that is not renewed lapses.
//
// Each file uses only files after it. Handlers speak HTTP: routes.go, events.go, agents.go,
// people.go, auth.go, middleware.go, body.go, console.go. Open, which makes the router, is the
// exception. The task service has the rules and the waiting agents: claims.go, service.go,
// hub.go. A task view reads a task's points and tools, and checks answers with package
// coaching/repair: export.go, view.go. The store is a bbolt file with the tasks: store.go,
// task.go, options.go, errors.go, limits.go.
package console

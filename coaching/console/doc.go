// Package console serves human coaching: agents post tasks over the human coaching protocol,
// and people answer them on a web page.
//
// The console stores a task before anybody sees it, and an answer before it is delivered. So
// a restart loses nothing: the agent posts its request again and joins the same task. A person
// claims a task before they work on it. A claim that is not renewed lapses.
//
// There are three layers, and each calls only the one below. Handlers (agents.go, people.go,
// events.go) speak HTTP. The task service (service.go, claims.go) has the rules and the waiting
// agents. The store (store.go) is a bbolt file with the tasks (task.go). A task view
// (view.go) reads a task's points and tools, and checks answers with package coaching/repair.
package console

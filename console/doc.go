// Package console is where people coach: an endpoint of the human coaching
// protocol, to which agents post tasks, and a web page on which people do them.
//
// A task is stored before anybody sees it, and an answer before it is delivered,
// so a console that stops and starts again loses nothing: the agent posts its
// request again and joins the same task, answered or not. Whoever wants to work
// on a task claims it; claims lapse unless they are renewed.
//
// The layers, each knowing only the one below: handlers (api.go, agents.go and
// their neighbours) speak HTTP, the desk (desk.go) has the rules and the waiting
// agents, the store (store.go) keeps what must survive in one bbolt file. What a
// task means (its points, tools, and whether an answer fits them) is sheet.go's
// affair and package coaching/repair's.
package console

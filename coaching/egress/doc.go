// Package egress is the only way out of the server on behalf of a client.
//
// A client that configures a coaching session names the endpoints that the
// server will then talk to, and the headers it sends. Without care that makes
// the server a way into networks that the client cannot reach itself. So a
// [Policy] says which URLs and headers are acceptable. A [Client] enforces it where it
// cannot be evaded: on the address of each connection, after the name was resolved.
//
// Each file uses only files after it: client.go, dial.go, url.go, policy.go, address.go,
// errors.go, limits.go. The rules of names are the exception: policies need them, too.
package egress

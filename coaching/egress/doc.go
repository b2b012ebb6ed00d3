// Package egress makes all connections of the server to endpoints that clients choose.
//
// A client that configures a coaching session chooses the endpoints to which the server connects, and the headers that
// it sends. Without a check, that gives the client access to networks that it cannot reach itself (server-side request
// forgery). So a [Policy] decides which URLs and headers are acceptable. A [Client] enforces it on the address of each
// connection, after the name was resolved.
//
// Each file uses only files after it: client.go, dial.go, url.go, policy.go, address.go,
// errors.go, limits.go. The rules of names are the exception: policies need them, too.
package egress

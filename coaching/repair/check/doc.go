// Package check decides whether a decision is valid at a reinjection point: its tools and
// robots are known there and its arguments match.
package check

// Package report shows results to people: a table for a terminal, and one HTML
// page with plots that needs nothing else, no script and no network.
package report

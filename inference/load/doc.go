// Package load makes a model ready to serve: it picks devices, reads the file, chooses the sizes that
// its Config leaves open, starts the engine (package scheduler, or scheduler/remote for engines at URLs)
// and makes the agent. Model.Info has what was chosen.
package load

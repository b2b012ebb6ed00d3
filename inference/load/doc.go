// Package load makes a model ready to serve: it chooses devices, reads the file, chooses the sizes that
// Config leaves open, starts the engine (package scheduler, or scheduler/remote for engines at URLs)
// and makes the agent. Model.Info has the choices.
package load

// Package live serves a loaded model (package load): it decides requests and answers coaching questions, and
// replaces the model and its adapters while requests run. A request passes through once: Decide admits it
// to the engine and hands the admission to the agent, which tokenizes and generates without calling back.
package live

// Package household is the world of the default model: a simulated house with
// robots, people who give them tasks, and a planner that knows the right decision at
// each step.
//
// The planner uses only [knowledge], which holds what the agent's prompt says. It never
// looks into the house. So every decision follows from the prompt. Each situation has
// exactly one right decision: replies have one wording for each kind, while people have
// many.
//
// An [Episode] is a conversation about one house. The data set, the evaluation and the
// demo all use it: they give its Input to an agent and its decision to Apply.
package household

// Package household is the world of the default model: a simulated house with
// robots, people who want things of them, and a planner that knows the right
// decision at each step.
//
// The planner works on [knowledge], which holds only what the agent's prompt
// says; it never looks into the house. So every decision it makes can be made by
// a reader of the prompt, and no two are right in the same situation: the
// agent's replies have one wording for each kind, while people have many.
//
// An [Episode] is a conversation about one house. The same code writes the data
// set that the model is trained on, measures what it decides, and shows it at
// work: whoever has an episode takes its Input to an agent and its decision back
// by Apply.
package household

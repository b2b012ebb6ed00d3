// Package learn improves a model of the simulated household by corrections, in rounds. In
// a round the model does tasks, a coach corrects its wrong decisions through the coaching
// protocol, the corrections and the right decisions are exported, a LoRA adapter is
// trained on them, and the new weights are measured in held-out houses. They replace the
// old ones only when they are better.
//
// Each stage writes its files under another name and renames them, so that a run that was
// killed goes on where it was.
package learn

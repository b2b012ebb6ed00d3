// Labels of the kinds and outcomes of tasks.

const kinds = {
  failure: { label: "Failure", about: "The agent failed; find what it should have done." },
  suboptimal: { label: "Suboptimal", about: "The agent's decision works but could be better." },
  format: { label: "Format", about: "The agent's output could not be read as a decision." },
  unsure: { label: "Unsure", about: "The agent is unsure; choose one of its options. After some time it takes the most probable one." },
  other: { label: "Other", about: "A task of another kind of agent." },
};

export function kindOf(name) {
  return kinds[name] ?? kinds.other;
}

const outcomes = { completed: "Corrected", skipped: "Skipped", aborted: "Aborted" };

export function outcomeOf(task) {
  if (task.state === "withdrawn") return "Withdrawn";
  return outcomes[task.outcome] ?? "Done";
}

// age formats a duration in one unit.
export function age(then, now) {
  const seconds = Math.max(0, Math.round((now - then) / 1000));
  if (seconds < 45) return "just now";
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  if (hours < 48) return `${hours} h`;
  return `${Math.round(hours / 24)} days`;
}

export function count(n, one, many = `${one}s`) {
  return `${n} ${n === 1 ? one : many}`;
}

// worker names who works on a task.
export function worker(task, me) {
  if (task.state !== "claimed" || !task.claimed_by) return "";
  return task.claimed_by === me ? "You are working on it" : `${task.claimed_by} is working on it`;
}

// The list of tasks.

import { fill, h, icon } from "./dom.js";
import { age, kindOf, outcomeOf, worker } from "./words.js";

// createQueue shows tasks as links. update(tasks, {now, selected, me, done})
// reuses the elements of known tasks, which preserves focus and scrolling.
export function createQueue() {
  const element = h("ol", { class: "queue" });
  const rows = new Map(); // id to {element, parts}

  return {
    element,
    update(tasks, view) {
      const ids = new Set(tasks.map((t) => t.id));
      for (const [id, known] of rows) {
        if (ids.has(id)) continue;
        known.element.remove();
        rows.delete(id);
      }
      tasks.forEach((task, i) => {
        const known = rows.get(task.id) ?? newRow(task, view.done);
        rows.set(task.id, known);
        paint(known, task, view);
        if (element.children[i] !== known.element) element.insertBefore(known.element, element.children[i] ?? null);
      });
    },
    // next returns the id of the task after the selected one, or of the first.
    next(selected) {
      const ids = [...element.children].map((e) => e.dataset.id);
      return ids[ids.indexOf(selected) + 1] ?? null;
    },
  };
}

function newRow(task, done) {
  const parts = {
    age: h("span", { class: "queue-age" }),
    stage: h("span", { class: "queue-stage" }),
    foot: h("span", { class: "queue-foot" }),
  };
  const link = h("a", { class: "queue-link", href: `#/${done ? "done" : "open"}/${encodeURIComponent(task.id)}` },
    h("span", { class: "queue-top" }, badge(task.kind), parts.age), parts.stage, parts.foot);
  return { element: h("li", { dataset: { id: task.id } }, link), link, parts };
}

function paint({ element, link, parts }, task, { now, selected, me, done }) {
  element.dataset.state = task.state;
  const since = age(Date.parse(task.received_at), now);
  parts.age.textContent = since;
  parts.stage.textContent = task.stage || task.payload_type;
  link.ariaCurrent = task.id === selected ? "page" : null;
  const busy = worker(task, me);
  const notes = done ? [h("span", { class: `outcome ${task.outcome ?? "withdrawn"}` }, outcomeOf(task)), task.claimed_by ? h("span", null, `by ${task.claimed_by}`) : null]
    : [busy ? h("span", { class: "queue-busy" }, icon("person"), busy) : null, task.has_draft ? h("span", { class: "queue-draft" }, "draft") : null];
  const foot = [...notes, task.run_id ? h("span", { class: "queue-run", title: "Run" }, task.run_id) : null];
  const text = foot.map((node) => node?.textContent ?? "").join("|");
  if (parts.foot.dataset.text === text) return;
  parts.foot.dataset.text = text;
  fill(parts.foot, foot);
}

// badge shows a kind by its color and by its name.
export function badge(kind) {
  const { label, about } = kindOf(kind);
  return h("span", { class: `badge badge-${kind}`, title: about }, label);
}

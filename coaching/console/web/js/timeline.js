// The timeline: what a person reads about a task before they answer it.

import { details, h, icon } from "./dom.js";
import { robotView } from "./decision.js";
import { isObject } from "../json.js";
import { read, limits, typeName } from "./schema.js";
import { steps } from "./steps.js";
import { textBox, tree } from "./tree.js";
import { count } from "./words.js";

// timeline shows a task. It returns {element, pick(id)}. onpick(id) is called when the
// person picks a point.
export function timeline(detail, onpick) {
  if (detail.coaching === null) return { element: foreign(detail), pick() {} };
  const { coaching } = detail;
  const trajectory = steps(coaching, detail.points, onpick);
  const tools = h("div", { class: "toolbox" });
  const element = h("div", { class: "timeline" },
    findings(coaching),
    h("section", { "aria-label": "Trajectory" },
      h("div", { class: "section-head" }, h("h2", null, "What happened"), h("span", { class: "muted" }, count(coaching.trajectory.length, "step"))),
      trajectory.element),
    tools,
    extra(coaching.additional_info),
    details("Everything that was sent", () => tree(detail.request), { class: "fold whole" }));
  return {
    element,
    pick(id) {
      trajectory.pick(id);
      const point = detail.points.find((p) => p.id === id);
      tools.replaceChildren(...(point ? [toolbox(point)] : []));
    },
  };
}

// findings shows the known errors.
function findings({ active_errors: errors, diagnosis, stage, kind }) {
  const hint = isObject(stage) ? stage.hint : null;
  const parts = [
    hint ? finding("Hint", h("p", null, hint), "hint") : null,
    Array.isArray(errors) && errors.length > 0 ? finding(count(errors.length, "active error"), errors.map(activeError), "bad") : null,
    diagnosis === undefined || diagnosis === null ? null : finding("Diagnosis", diagnosisView(diagnosis), kind === "suboptimal" ? "hint" : "bad"),
  ].filter(Boolean);
  return parts.length === 0 ? null : h("section", { class: "findings", "aria-label": "What is wrong" }, parts);
}

function finding(title, content, tone) {
  return h("div", { class: `finding ${tone}` }, h("h2", null, title), content);
}

function activeError(error) {
  if (!isObject(error) || typeof error.description !== "string") return tree(error, { open: true });
  const { code, description, details: more, ...rest } = error;
  const left = { ...(isObject(more) ? more : {}), ...rest };
  return h("div", { class: "active-error" },
    h("p", null, description, " ", code ? h("code", null, code) : null),
    Object.keys(left).length > 0 ? tree(left, { open: true }) : null);
}

function diagnosisView(diagnosis) {
  if (!isObject(diagnosis) || typeof diagnosis.explanation !== "string") return tree(diagnosis, { open: true });
  const { explanation, expected_decision: expected, ...rest } = diagnosis;
  return [
    h("p", null, explanation),
    expected ? h("p", { class: "expected" }, h("span", { class: "told-by" }, "Expected"), expected) : null,
    Object.keys(rest).length > 0 ? tree(rest, { open: true }) : null,
  ];
}

function toolbox(point) {
  const title = `${count(point.tools.length, "tool")} and ${count(point.robots.length, "robot")} at this point`;
  return details(title, () => h("div", null,
    point.tools_error ? h("p", { class: "notice warn" }, point.tools_error) : null,
    point.robots.length > 0 ? h("p", { class: "robots" }, point.robots.map(robotView)) : h("p", { class: "muted" }, "Which robots there are is not said."),
    h("dl", { class: "tool-list" }, point.tools.map(toolView))), { class: "fold toolbox-fold" });
}

function toolView(tool) {
  const form = read(tool.schema);
  return [
    h("dt", null, icon("tool"), h("span", { class: "call-name" }, tool.name)),
    h("dd", null,
      tool.description ? h("p", null, tool.description) : null,
      h("ul", { class: "parameters" }, (form.fields ?? []).map((f) => h("li", null,
        h("code", null, f.name), " ", h("span", { class: "muted" }, [typeName(f), f.required ? "" : "optional", limits(f.schema)].filter(Boolean).join(", ")),
        f.about ? h("span", { class: "parameter-about" }, f.about) : null)))),
  ];
}

function extra(info) {
  if (!isObject(info) || Object.keys(info).length === 0) return null;
  return details("Additional information", () => tree(info, { open: true }));
}

// foreign shows a task of another kind of agent: its own text for people, and everything that
// it sent.
function foreign(detail) {
  const { request } = detail;
  const rejected = rawOutput(request.payload);
  const raw = rejected !== null && request.rendered_prompt.includes(rejected) ? null : rejected; // shown once
  return h("div", { class: "timeline" },
    h("section", { "aria-label": "The task" },
      h("div", { class: "section-head" }, h("h2", null, "The task"), h("span", { class: "muted" }, request.payload_type)),
      request.rendered_prompt ? textBox(request.rendered_prompt, "task") : h("p", { class: "muted" }, "It came without a text for people.")),
    raw === null ? null : h("section", { "aria-label": "Rejected answer" }, h("h2", null, "The rejected answer"), textBox(raw, "rejected answer")),
    detail.points[0] ? toolbox(detail.points[0]) : null,
    details("All that was sent", () => tree(request.payload), { class: "fold whole" }));
}

function rawOutput(payload) {
  for (const name of ["rejected_answer_display", "rejected_answer", "bad_answer"]) {
    const value = payload?.[name];
    if (typeof value === "string") return value;
    if (isObject(value) || Array.isArray(value)) return JSON.stringify(value, null, 2);
  }
  return null;
}

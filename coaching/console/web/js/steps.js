// The steps of a trajectory: the instruction, the decision and its execution.

import { button, details, h, icon } from "./dom.js";
import { decisionView } from "./decision.js";
import { isObject } from "../json.js";
import { textBox, tree } from "./tree.js";
import { count } from "./words.js";

const authors = { user: "Told by a person", env: "From the environment" };

// steps shows the steps. points are the task's; onpick(id) is called when the person
// picks one. It returns {element, pick(id)}.
export function steps(coaching, points, onpick) {
  const picks = new Map();
  const element = h("ol", { class: "steps" });
  coaching.trajectory.forEach((step, i) => {
    const here = points.filter((p) => p.step_id === step.id);
    element.append(stepView(step, i + 1, step.id === coaching.target_step_id, pickButtons(here, picks, onpick)));
  });
  for (const point of points.filter((p) => p.step_id === null)) {
    element.append(freshView(point, pickButtons([point], picks, onpick)));
  }
  return {
    element,
    pick(id) {
      for (const [name, pressed] of picks) {
        pressed.setAttribute("aria-pressed", String(name === id));
        pressed.closest(".step").classList.toggle("picked", [...pressed.closest(".step").querySelectorAll(".pick")].some((b) => b.getAttribute("aria-pressed") === "true"));
      }
    },
  };
}

function pickButtons(points, picks, onpick) {
  return points.map((point) => {
    const pick = button({ class: "pick", "aria-pressed": "false", onclick: () => onpick(point.id) },
      icon("target"), h("span", null, points.length > 1 ? `Correct here (${point.id})` : "Correct here"));
    picks.set(point.id, pick);
    return pick;
  });
}

function stepView(step, number, isTarget, picks) {
  const title = h("div", { class: "step-head" },
    h("h3", null, `Step ${step.id}`),
    isTarget ? h("span", { class: "target-mark" }, icon("target"), "To be corrected") : null,
    picks);
  return h("li", { class: isTarget ? "step target" : "step" },
    h("span", { class: "step-number", "aria-hidden": "true" }, String(number)),
    h("div", { class: "step-body" },
      title,
      instructionView(step.input?.instruction),
      step.output ? decisionView(step.output) : null,
      step.error ? errorView(step.error) : null,
      executionView(step.execution),
      h("div", { class: "folds" }, contextFold(step.input), internalFolds(step.internal_steps))));
}

function freshView(point, picks) {
  return h("li", { class: "step fresh" },
    h("span", { class: "step-number", "aria-hidden": "true" }, icon("add")),
    h("div", { class: "step-body" },
      h("div", { class: "step-head" }, h("h3", null, "A new input"), picks),
      instructionView(point.input?.instruction),
      h("div", { class: "folds" }, contextFold(point.input))));
}

function instructionView(instruction) {
  if (!instruction) return null;
  return h("div", { class: `told told-${instruction.type === "env" ? "env" : "user"}` },
    h("span", { class: "told-by" }, authors[instruction.type] ?? instruction.type),
    h("p", null, instruction.content || h("span", { class: "muted" }, "nothing")));
}

// errorView shows an AgentError.
function errorView(error) {
  return h("div", { class: "error-view" }, icon("warn"),
    h("div", null, h("p", null, error.message), h("p", { class: "muted" }, [error.code, error.component].filter(Boolean).join(" · "))));
}

// executionView shows the execution of a decision. The orchestrator chooses its format; most
// send a list of results by robot.
function executionView(execution) {
  if (!isObject(execution) || Object.keys(execution).length === 0) return null;
  const { results, ...rest } = execution;
  const known = Array.isArray(results) && results.every((r) => isObject(r));
  return h("div", { class: "execution" },
    h("span", { class: "told-by" }, "What came of it"),
    known ? h("ul", { class: "results" }, results.map(resultView)) : null,
    Object.keys(known ? rest : execution).length > 0 ? tree(known ? rest : execution, { open: true }) : null);
}

function resultView(result) {
  const { robot, result: outcome, ...rest } = result;
  const bad = outcome === false || /^(fail|error|abort)/i.test(String(outcome));
  const good = outcome === true || /^(ok|success|done)/i.test(String(outcome));
  return h("li", { class: bad ? "bad" : good ? "good" : "" },
    bad ? icon("close") : good ? icon("check") : null,
    robot === undefined ? null : h("strong", null, String(robot)),
    outcome === undefined ? null : h("span", null, typeof outcome === "boolean" ? (outcome ? "done" : "failed") : typeof outcome === "object" ? tree(outcome, { open: true }) : String(outcome)),
    Object.keys(rest).length > 0 ? tree(rest, { open: true }) : null);
}

function contextFold(input) {
  if (!isObject(input)) return null;
  const parts = {};
  for (const name of ["attributes", "memory", "tools", "extra_keys"]) {
    if (input[name] !== undefined && Object.keys(input[name]).length > 0) parts[name] = input[name];
  }
  if (Object.keys(parts).length === 0) return null;
  const listed = Object.keys(parts).map((name) => name.replace("_", " "));
  return details(`What the agent knew: ${listed.join(", ")}`, () => tree(parts, { open: true }));
}

function internalFolds(steps) {
  if (!Array.isArray(steps) || steps.length === 0) return null;
  return details(`Internal steps: ${count(steps.length, "model call")}`, () => h("div", { class: "internals" }, steps.map(internalView)));
}

function internalView(step) {
  const { id, component, origin, full_prompt: prompt, output_raw: output, ...rest } = step;
  const heading = [id, component, origin].filter((part) => typeof part === "string").join(" · ");
  return h("section", { class: "internal" },
    heading ? h("h4", null, heading) : null,
    typeof output === "string" ? [h("h5", null, "Raw output"), textBox(output, "raw output")] : null,
    typeof prompt === "string" ? details(`Prompt, ${count(prompt.length, "character")}`, () => textBox(prompt, "prompt")) : null,
    Object.keys(rest).length > 0 ? details("Everything else", () => tree(rest)) : null);
}

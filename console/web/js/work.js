// A person's unfinished answer to one task, as plain JSON that can be saved as a draft:
// {version, mode, point, say, calls, json, raw, reason, keep, by, at}. Modes: reply, tools,
// json (the decision as JSON), raw (any text, for other kinds of agents).

import { clone, isObject, parse, pretty } from "./json.js";

export const version = 1;

// modes lists the ways to answer a task. An agent of this server's protocol
// takes decisions; another one may want a text in its own form.
export function modes(detail) {
  if (detail.points.length === 0) return ["raw"];
  return detail.coaching === null ? ["reply", "tools", "json", "raw"] : ["reply", "tools", "json"];
}

// begin returns empty work for a task.
export function begin(detail) {
  return {
    version, mode: detail.points.length > 0 ? (detail.points[0].tools.length > 0 ? "tools" : "reply") : "raw", point: firstPoint(detail)?.id ?? null,
    say: "", calls: [], json: "", raw: "", keep: false, by: "", at: "",
  };
}

// firstPoint is the point that a person most likely wants: the one at the
// target step, if there is one.
function firstPoint(detail) {
  const target = detail.coaching?.target_step_id;
  return detail.points.find((p) => p.step_id !== null && p.step_id === target) ?? detail.points[0];
}

// restore parses a draft. Parts that do not fit the task get their initial value.
export function restore(draft, detail) {
  const work = begin(detail);
  if (!isObject(draft) || draft.version !== version) return work;
  for (const name of ["say", "json", "raw", "by", "at"]) {
    if (typeof draft[name] === "string") work[name] = draft[name];
  }
  if (detail.points.some((p) => p.id === draft.point)) work.point = draft.point;
  if (Array.isArray(draft.calls)) {
    work.calls = draft.calls.filter((c) => isObject(c) && typeof c.name === "string")
      .map((c) => ({ name: c.name, robot: c.robot, arguments: isObject(c.arguments) ? clone(c.arguments) : {} }));
  }
  if (modes(detail).includes(draft.mode)) work.mode = draft.mode;
  work.keep = draft.keep === true;
  return work;
}

// isEmpty reports whether nothing has been written.
export function isEmpty(work) {
  return work.say.trim() === "" && work.calls.length === 0 && work.json.trim() === "" && work.raw.trim() === "";
}

// decision returns the decision as it stands in the form's mode.
export function decision(work) {
  if (work.mode === "json") return parse(work.json);
  if (work.mode === "reply") return { say: work.say, tool_calls: [] };
  return {
    say: "",
    tool_calls: work.calls.map((c) => ({ name: c.name, arguments: c.arguments, target_robot_name: c.robot ?? "" })),
  };
}

// content returns what /check and /answer take; it throws a SyntaxError when
// JSON typed by hand cannot be read.
export function content(work) {
  if (work.mode === "raw") return { output: work.raw };
  return { point: work.point, decision: decision(work) };
}

// adopt puts a decision into the form.
export function adopt(work, from) {
  work.say = typeof from.say === "string" ? from.say : "";
  work.calls = (from.tool_calls ?? []).map((c) => ({
    name: c.name, robot: c.target_robot_name, arguments: clone(c.arguments ?? {}),
  }));
  if (work.mode !== "json") work.mode = work.calls.length > 0 || work.say === "" ? "tools" : "reply";
  if (work.mode === "json") work.json = pretty(from);
}

// isDecision reports whether a value has the shape that the form can show.
function isDecision(value) {
  return isObject(value) && Object.keys(value).every((name) => name === "say" || name === "tool_calls")
    && (value.say === undefined || typeof value.say === "string")
    && (value.tool_calls === undefined || Array.isArray(value.tool_calls) && value.tool_calls.every((c) => isObject(c)
      && Object.keys(c).every((name) => ["name", "arguments", "target_robot_name"].includes(name))
      && typeof c.name === "string" && isObject(c.arguments ?? {})));
}

// turn changes the mode and carries over what was written. It returns a
// sentence when the JSON cannot become a form; then the mode stays.
export function turn(work, mode) {
  if (mode === work.mode) return "";
  if (mode === "raw" || work.mode === "raw") {
    work.mode = mode; // nothing to convert
    return "";
  }
  if (mode === "json") {
    work.json = pretty(decision(work));
  } else if (work.mode === "json" && work.json.trim() !== "") {
    let value;
    try {
      value = parse(work.json);
    } catch (error) {
      return `The JSON cannot be read yet, so it cannot become a form: ${error.message}.`;
    }
    if (!isDecision(value)) return "Only an object with say and tool_calls can become a form.";
    if (value.tool_calls?.length > 0 || value.say) {
      work.calls = [];
      adopt(Object.assign(work, { mode }), value);
    }
  }
  work.mode = mode;
  return "";
}

// A person's unfinished answer to one task, as plain JSON that can be saved as a draft:
// {version, mode, point, say, calls, raw, keep, by, at}. Modes: reply, tools, raw (any text, for
// other kinds of agents).

import { clone, isObject } from "../json.js";

export const version = 1;

// modes lists the ways to answer a task. An agent of this server's protocol
// takes decisions; another one may want a text in its own form.
export function modes(detail) {
  if (detail.points.length === 0) return ["raw"];
  return detail.coaching === null ? ["reply", "tools", "raw"] : ["reply", "tools"];
}

// begin returns empty work for a task.
export function begin(detail) {
  return {
    version, mode: detail.points.length > 0 ? (detail.points[0].tools.length > 0 ? "tools" : "reply") : "raw", point: firstPoint(detail)?.id ?? null,
    say: "", calls: [], raw: "", keep: false, by: "", at: "",
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
  for (const name of ["say", "raw", "by", "at"]) {
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
  return work.say.trim() === "" && work.calls.length === 0 && work.raw.trim() === "";
}

// decision returns the decision as it stands in the form's mode.
export function decision(work) {
  if (work.mode === "reply") return { say: work.say, tool_calls: [] };
  return {
    say: "",
    tool_calls: work.calls.map((c) => ({ name: c.name, arguments: c.arguments, target_robot_name: c.robot ?? "" })),
  };
}

// content returns what /check and /answer take.
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
  work.mode = work.calls.length > 0 || work.say === "" ? "tools" : "reply";
}

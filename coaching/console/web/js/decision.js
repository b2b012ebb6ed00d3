// Views of a decision.

import { h, icon } from "./dom.js";
import { isObject, isRaw } from "../json.js";
import { tree } from "./tree.js";

const shortArgument = 60;

// decisionView shows a reply or tool calls.
export function decisionView(decision) {
  const box = h("div", { class: "decision" });
  if (decision.say) box.append(h("blockquote", { class: "say" }, icon("say"), h("p", null, decision.say)));
  for (const call of decision.tool_calls ?? []) box.append(callView(call));
  if (!box.firstChild) box.append(h("p", { class: "muted" }, "Neither a reply nor a tool call."));
  return box;
}

function callView(call) {
  const given = isObject(call.arguments) ? call.arguments : {};
  const names = Object.keys(given);
  const simple = names.every((name) => isShort(given[name]));
  return h("div", { class: "call-view" },
    h("div", { class: "call-line" }, icon("tool"),
      h("span", { class: "call-name" }, call.name),
      simple ? names.map((name) => h("span", { class: "arg" }, h("span", { class: "arg-name" }, name), " ", h("span", { class: "arg-value" }, plain(given[name])))) : null,
      call.target_robot_name ? robotView(call.target_robot_name) : null),
    simple ? null : tree(given, { open: true }));
}

// robotView names a robot.
export function robotView(name) {
  return h("span", { class: "robot", title: `Robot ${name}` }, icon("robot"), name);
}

function plain(value) {
  if (isRaw(value)) return value.rawJSON;
  return typeof value === "string" ? value : JSON.stringify(value);
}

function isShort(value) {
  if (typeof value === "object" && value !== null && !isRaw(value)) return false;
  return plain(value).length <= shortArgument;
}

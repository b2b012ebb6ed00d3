// Problems are shown at their fields. Every field of a form is in an element whose data-path is
// its location in the decision, as JSON.

import { button, fill, h, icon } from "./dom.js";

// place returns the data-path of a location.
export function place(path) {
  return JSON.stringify(path);
}

// slot is the line under a field for its problem.
export function slot(id) {
  return h("p", { class: "field-problem", id, hidden: true });
}

// own returns the elements of a field, without nested fields'.
function own(wrapper, selector) {
  return [...wrapper.querySelectorAll(selector)].filter((e) => e.closest("[data-path]") === wrapper);
}

function mark(wrapper, message, severity) {
  const [line] = own(wrapper, ".field-problem");
  if (!line) return;
  line.hidden = message === "";
  fill(line, message === "" ? null : [icon(severity === "missing" ? "add" : "warn"), h("span", null, message)]);
  wrapper.classList.toggle("wrong", severity === "wrong");
  wrapper.classList.toggle("missing", severity === "missing");
  for (const control of own(wrapper, "input, textarea, select")) {
    control.ariaInvalid = severity === "wrong" ? "true" : null;
  }
}

// broken marks a field whose text cannot be parsed, until it can be parsed.
export function broken(wrapper, message) {
  if (message === "") delete wrapper.dataset.broken;
  else wrapper.dataset.broken = message;
  mark(wrapper, message, message === "" ? "" : "wrong");
}

// trim removes the part of a location that names the body of a request.
function trim(loc) {
  let path = loc ?? [];
  if (path[0] === "body") path = path.slice(1);
  if (path[0] === "decision") path = path.slice(1);
  return path;
}

// show puts each problem at the innermost field that its location names, and
// returns the list for the summary: {message, wrapper, severity}.
export function show(root, problems) {
  const wrappers = new Map();
  for (const wrapper of root.querySelectorAll("[data-path]")) {
    wrappers.set(wrapper.dataset.path, wrapper);
    if (!wrapper.dataset.broken) mark(wrapper, "", "");
  }
  const listed = [];
  for (const wrapper of root.querySelectorAll("[data-broken]")) {
    listed.push({ message: wrapper.dataset.broken, wrapper, severity: "wrong" });
  }
  const seen = new Map();
  for (const problem of problems) {
    const wrapper = find(wrappers, trim(problem.loc));
    if (wrapper?.dataset.broken) continue;
    if (wrapper?.dataset.unset === "true") continue; // reported below, for people
    listed.push({ message: problem.msg, wrapper, severity: "wrong" });
    if (!wrapper) continue;
    const before = seen.get(wrapper);
    seen.set(wrapper, before ? `${before}; ${problem.msg}` : problem.msg);
    mark(wrapper, seen.get(wrapper), "wrong");
  }
  if (listed.length > 0 || problems.length > 0) {
    // The console reports no missing fields of a decision that it cannot parse.
    const named = problems.map((p) => find(wrappers, trim(p.loc)));
    for (const wrapper of root.querySelectorAll('[data-unset="true"]')) {
      if (wrapper.dataset.required !== "true" && !named.includes(wrapper)) continue;
      if (seen.has(wrapper)) continue;
      mark(wrapper, "must be filled in", "missing");
      listed.push({ message: "must be filled in", wrapper, severity: "missing" });
    }
  }
  return listed;
}

function find(wrappers, path) {
  for (let n = path.length; n > 0; n--) {
    const wrapper = wrappers.get(place(path.slice(0, n)));
    if (wrapper) return wrapper;
  }
  return null;
}

// goTo moves the focus to the field of a problem.
export function goTo(wrapper) {
  const control = wrapper.querySelector("input, textarea, select") ?? wrapper.querySelector("button") ?? wrapper;
  control.focus();
  wrapper.scrollIntoView({ block: "nearest" });
}

// summary lists problems as links to their fields.
export function summary(listed) {
  return h("ul", { class: "problem-list" }, listed.map(({ message, wrapper, severity }) => h("li", { class: severity },
    wrapper ? button({ class: "link", onclick: () => goTo(wrapper) }, `${wrapper.dataset.name}: ${message}`) : message)));
}

// Writing the correction: where, what, and sending it.

import { announce, button, fill, grow, h, icon, key, uid } from "./dom.js";
import { createCalls } from "./calls.js";
import { createCandidates } from "./candidates.js";
import { createChecker } from "./check.js";
import { goTo, place, show, slot, summary } from "./problems.js";
import { clone, short } from "./json.js";
import { textBox } from "./tree.js";
import { count } from "./words.js";
import { adopt, content, isEmpty, modes, turn } from "./work.js";

const tabs = {
  reply: { label: "Reply", icon: "say", letter: "r" },
  tools: { label: "Tool calls", icon: "tool", letter: "t" },
  json: { label: "JSON", icon: "json", letter: "e" },
  raw: { label: "Text", icon: "json", letter: "" },
};

// createComposer edits work for a task. onchange() is called after every
// change, onpoint(id) when another point was picked, send(content) and
// abandon() when the person is done; canAsk tells whether there is an agent
// server to ask.
export function createComposer({ detail, work, canAsk, onchange, onpoint, send, abandon }) {
  const id = detail.task.id;
  const point = () => detail.points.find((p) => p.id === work.point) ?? null;
  const panel = h("div", { class: "panel", role: "tabpanel", tabindex: "-1" });
  const verdict = h("div", { class: "verdict", role: "status" });
  const preview = h("div", { class: "fold-body" });
  const notice = h("div", { class: "composer-notice" });
  const sendButton = button({ class: "button primary", dataset: { action: "send" }, onclick: trySend }, icon("send"), h("span", null, "Send"));
  const checker = createChecker(id, { read: () => content(work), onresult: showResult });
  const pick = pointPicker(detail, work, (next) => choose(next));
  const strip = tabStrip(modes(detail), (mode) => setMode(mode));
  const candidates = canAsk && detail.points.some((p) => p.input !== null)
    ? createCandidates(id, () => work.point, (decision) => use(decision)) : null;
  let sending = false;

  function changed() {
    checker.changed();
    onchange();
  }

  function choose(next) {
    if (next === work.point) return;
    work.point = next;
    pick.set(next);
    onpoint(next);
    if (work.mode === "tools") draw(); // other tools, other robots
    candidates?.clear();
    changed();
  }

  function setMode(mode, focus = true) {
    const refusal = turn(work, mode);
    if (refusal) {
      say(refusal);
      return;
    }
    say("");
    draw();
    if (focus) panel.querySelector("textarea, input, select, button")?.focus();
    changed();
  }

  function say(text, action = null) {
    fill(notice, text ? h("p", { class: "notice" }, text, " ", action) : null);
  }

  function use(decision) {
    const before = clone(work);
    const replaced = !isEmpty(work);
    adopt(work, decision);
    draw();
    changed();
    say("Taken over; change whatever you like.", replaced ? button({
      class: "link", onclick() { Object.assign(work, before); draw(); changed(); say(""); },
    }, "Undo") : null);
    notice.scrollIntoView({ block: "nearest" });
    announce("The suggestion was taken over");
  }

  function draw() {
    strip.set(work.mode);
    if (work.mode === "tools") {
      fill(panel, createCalls(work, point, robotsSoFar(detail.coaching), changed));
    } else fill(panel, textPanel(work, changed));
  }

  function showResult(result) {
    const empty = isEmpty(work);
    const listed = show(element, result.problems);
    const wrong = listed.length > 0 || result.state !== "valid";
    sendButton.setAttribute("aria-disabled", String(wrong));
    fill(verdict, verdictView(result, listed, empty));
    fill(preview, result.output && !wrong ? textBox(result.output, "what will be sent") : h("p", { class: "muted" }, "Nothing yet."));
  }

  async function trySend() {
    if (sending) return;
    sending = true;
    try {
      const result = await checker.now();
      const wrongField = element.querySelector("[data-path]:is(.wrong, .missing)");
      if (result.state !== "valid" || element.querySelector("[data-broken]")) {
        announce(result.state === "unknown" ? "It could not be checked, so it was not sent" : "Not sent: something is missing or wrong");
        if (wrongField) goTo(wrongField);
        else (panel.querySelector("textarea, input, select, button") ?? panel).focus();
        return;
      }
      sendButton.setAttribute("aria-disabled", "true");
      await send(content(work));
    } finally {
      sending = false;
    }
  }

  const keep = detail.request.allow_force_save_example ? h("label", { class: "check" },
    h("input", { type: "checkbox", checked: work.keep, onchange: (event) => { work.keep = event.target.checked; onchange(); } }),
    h("span", null, "Keep this correction as an example")) : null;

  const saved = h("span", { class: "saved", role: "status" });
  const element = h("div", { class: "composer" },
    pick.element, candidates?.element, strip.element, notice, panel, keep, verdict,
    h("details", { class: "fold" }, h("summary", null, "What will be sent"), preview),
    h("div", { class: "composer-foot" }, saved,
      button({ class: "button", dataset: { action: "abandon" }, onclick: abandon }, "Give up…"), sendButton));
  draw();
  checker.now();

  return {
    element, choose, setMode, trySend,
    ask: () => candidates?.ask(),
    redraw() { draw(); checker.now(); },
    recheck: () => checker.now(),
    problems: (problems) => showResult({ state: "invalid", problems, output: "" }),
    setSaved(text) { saved.textContent = text; },
    end: () => checker.end(),
  };
}

function verdictView(result, listed, empty) {
  if (result.state === "checking") return null;
  if (listed.length === 0 && result.state === "valid") return h("p", { class: "good" }, icon("check"), "Ready to send ", key("Ctrl"), key("Enter"));
  if (result.state === "unknown") return h("p", { class: "notice warn" }, "It cannot be checked now: ", result.problems[0]?.msg);
  if (empty) return null; // nothing written yet is no mistake
  const missing = listed.filter((p) => p.severity === "missing").length;
  const title = missing === listed.length ? `${count(missing, "field")} to fill in` : `${count(listed.length, "thing")} to mend`;
  return [h("p", { class: "bad" }, icon("warn"), title), summary(listed)];
}

function tabStrip(names, onpick) {
  const buttons = new Map(names.map((name) => [name, button({
    class: "tab", role: "tab", dataset: { mode: name }, "aria-selected": "false", onclick: () => onpick(name),
    onkeydown: (event) => arrow(event, name),
  }, icon(tabs[name].icon), tabs[name].label)]));
  function arrow(event, name) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = names[(names.indexOf(name) + step + names.length) % names.length];
    onpick(next);
    buttons.get(next).focus();
  }
  return {
    element: h("div", { class: "tabs", role: "tablist", "aria-label": "How to answer", hidden: names.length < 2 }, [...buttons.values()]),
    set(mode) {
      for (const [name, tab] of buttons) {
        tab.setAttribute("aria-selected", String(name === mode));
        tab.tabIndex = name === mode ? 0 : -1;
      }
    },
  };
}

// robotsSoFar maps tools to the robots that the agent last used them with.
function robotsSoFar(coaching) {
  const calls = (coaching?.trajectory ?? []).flatMap((step) => step.output?.tool_calls ?? []);
  return new Map(calls.map((call) => [call.name, call.target_robot_name]));
}

const panels = {
  reply: { field: "say", label: "What the agent should say", path: ["say"], rows: "4", class: "" },
  json: { field: "json", label: "The decision as JSON", path: ["json"], rows: "10", class: "code" },
  raw: { field: "raw", label: "The correction, in the form that the agent expects", path: ["output"], rows: "8", class: "code" },
};

function textPanel(work, changed) {
  const { field, label, path, rows, class: look } = panels[work.mode];
  const control = uid("text");
  const problem = uid("p");
  const area = h("textarea", {
    id: control, rows, class: look, spellcheck: look === "code" ? "false" : "true", "aria-describedby": problem,
    value: work[field],
    oninput() {
      work[field] = area.value;
      row.dataset.unset = String(area.value.trim() === "");
      changed();
    },
  });
  const row = h("div", { class: "field", dataset: { path: place(path), name: label, required: "true", unset: String(work[field].trim() === "") } },
    h("label", { class: "field-label", for: control }, label), grow(area), slot(problem));
  return row;
}

function pointPicker(detail, work, onpick) {
  const name = uid("point");
  const options = detail.points.map((p) => h("label", { class: "point" },
    h("input", { type: "radio", name, value: p.id, checked: p.id === work.point, onchange: () => onpick(p.id) }),
    h("span", null, h("strong", null, pointTitle(p, detail)),
      h("span", { class: "point-about" }, short(p.input?.instruction?.content ?? "", 90)))));
  const one = detail.points.length < 2;
  const element = detail.points.length === 0 || detail.coaching === null ? h("div", { hidden: true })
    : h("fieldset", { class: one ? "points one" : "points", dataset: { path: place(["reinjection_point_id"]), name: "Where" } },
      h("legend", null, one ? "The correction goes in here" : "Where should the correction go in?"), options, slot(uid("p")));
  return {
    element,
    set(id) {
      for (const input of element.querySelectorAll("input")) input.checked = input.value === id;
    },
  };
}

// pointTitle names a point.
export function pointTitle(point, detail) {
  if (point.step_id === null) return "As a new input";
  const twins = detail.points.filter((p) => p.step_id === point.step_id).length > 1;
  const target = point.step_id === detail.coaching?.target_step_id ? ", the target" : "";
  return `At step ${point.step_id}${target}${twins ? ` (${point.id})` : ""}`;
}

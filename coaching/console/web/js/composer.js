// The composer of a correction: its point, its content, and sending it.

import { announce, button, fill, h, icon, uid } from "./dom.js";
import { Calls } from "./calls.js";
import { createCandidates } from "./candidates.js";
import { createChecker } from "./check.js";
import { goTo, place, show, slot, summary } from "./problems.js";
import { decisionView } from "./decision.js";
import { clone, short, toNumber } from "../json.js";
import { textBox } from "./tree.js";
import { count } from "./words.js";
import { adopt, content, isEmpty, modes } from "./work.js";

const tabs = {
  reply: { label: "Reply", icon: "say" },
  tools: { label: "Tool calls", icon: "tool" },
  raw: { label: "Text", icon: "json" },
};

// Composer edits work for a task. onchange() is called after every change, onpoint(id)
// when another point was picked, send(content) and abandon() when the person is done. canAsk:
// there is an agent server to ask for candidates.
export class Composer {
  element;
  #detail;
  #work;
  #options;
  #panel = h("div", { class: "panel", role: "tabpanel", tabindex: "-1" });
  #verdict = h("div", { class: "verdict", role: "status" });
  #preview = h("div", { class: "fold-body" });
  #notice = h("div", { class: "composer-notice" });
  #saved = h("span", { class: "saved", role: "status" });
  #sendButton;
  #checker;
  #points;
  #tabs;
  #candidates = null;
  #sending = false;

  constructor(options) {
    const { detail, work, canAsk, abandon } = options;
    this.#options = options;
    this.#detail = detail;
    this.#work = work;
    const id = detail.task.id;
    this.#sendButton = button({ class: "button primary", dataset: { action: "send" }, onclick: () => this.trySend() }, icon("send"), h("span", null, "Send"));
    this.#checker = createChecker(id, { read: () => content(work), onresult: (result) => this.#showResult(result) });
    this.#points = pointPicker(detail, work, (next) => this.choose(next));
    this.#tabs = tabStrip(modes(detail), (mode) => this.setMode(mode));
    const choices = optionList(detail, (option) => this.#adopt(option, "Taken over; send it without a change."));
    if (canAsk && !choices && detail.points.some((p) => p.input !== null)) {
      this.#candidates = createCandidates(id, () => work.point, (candidate) => this.#adopt(candidate));
    }
    this.element = h("div", { class: "composer" },
      this.#points.element, choices, this.#candidates?.element, this.#tabs.element, this.#notice, this.#panel, this.#keepView(), this.#verdict,
      h("details", { class: "fold" }, h("summary", null, "What will be sent"), this.#preview),
      h("div", { class: "composer-foot" }, this.#saved,
        button({ class: "button", dataset: { action: "abandon" }, onclick: abandon }, "Give up…"), this.#sendButton));
    this.redraw();
  }

  #keepView() {
    if (!this.#detail.request.allow_force_save_example) return null;
    return h("label", { class: "check" },
      h("input", { type: "checkbox", checked: this.#work.keep, onchange: (event) => { this.#work.keep = event.target.checked; this.#options.onchange(); } }),
      h("span", null, "Keep this correction as an example"));
  }

  #changed() {
    this.#checker.changed();
    this.#options.onchange();
  }

  // choose picks the point of the correction.
  choose(next) {
    if (next === this.#work.point) return;
    this.#work.point = next;
    this.#points.set(next);
    this.#options.onpoint(next);
    if (this.#work.mode === "tools") this.#draw(); // each point has tools and robots of its own
    this.#candidates?.clear();
    this.#changed();
  }

  setMode(mode) {
    this.#work.mode = mode;
    this.#say("");
    this.#draw();
    this.#panel.querySelector("textarea, input, select, button")?.focus();
    this.#changed();
  }

  #say(text, action = null) {
    fill(this.#notice, text ? h("p", { class: "notice" }, text, " ", action) : null);
  }

  // adopt takes a candidate over into the form. The person can undo it.
  #adopt(candidate, done = "Taken over; change whatever you like.") {
    const before = clone(this.#work);
    const replaced = !isEmpty(this.#work);
    adopt(this.#work, candidate);
    this.#draw();
    this.#changed();
    this.#say(done, replaced ? button({ class: "link", onclick: () => this.#undo(before) }, "Undo") : null);
    this.#notice.scrollIntoView({ block: "nearest" });
    announce("The suggestion was taken over");
  }

  #undo(before) {
    Object.assign(this.#work, before);
    this.#draw();
    this.#changed();
    this.#say("");
  }

  #draw() {
    this.#tabs.set(this.#work.mode);
    const changed = () => this.#changed();
    const point = () => this.#detail.points.find((p) => p.id === this.#work.point) ?? null;
    fill(this.#panel, this.#work.mode === "tools"
      ? new Calls({ work: this.#work, point, usualRobots: robotsSoFar(this.#detail.coaching), onchange: changed }).element
      : textPanel(this.#work, changed));
  }

  redraw() {
    this.#draw();
    this.#checker.now();
  }

  recheck() {
    this.#checker.now();
  }

  // problems shows why the console refused the answer.
  problems(problems) {
    this.#showResult({ state: "invalid", problems, output: "" });
  }

  #showResult(result) {
    const empty = isEmpty(this.#work);
    const listed = show(this.element, result.problems);
    const wrong = listed.length > 0 || result.state !== "valid";
    this.#sendButton.setAttribute("aria-disabled", String(wrong));
    fill(this.#verdict, verdictView(result, listed, empty));
    fill(this.#preview, result.output && !wrong ? textBox(result.output, "what will be sent") : h("p", { class: "muted" }, "Nothing yet."));
  }

  // trySend checks the correction and sends a valid one.
  async trySend() {
    if (this.#sending) return;
    this.#sending = true;
    try {
      const result = await this.#checker.now();
      if (result.state !== "valid" || this.element.querySelector("[data-broken]")) {
        this.#refuse(result);
        return;
      }
      this.#sendButton.setAttribute("aria-disabled", "true");
      await this.#options.send(content(this.#work));
    } finally {
      this.#sending = false;
    }
  }

  // refuse explains why a correction was not sent, and goes to the first wrong field.
  #refuse(result) {
    const wrongField = this.element.querySelector("[data-path]:is(.wrong, .missing)");
    announce(result.state === "unknown" ? "It could not be checked, so it was not sent" : "Not sent: something is missing or wrong");
    if (wrongField) goTo(wrongField);
    else (this.#panel.querySelector("textarea, input, select, button") ?? this.#panel).focus();
  }

  setSaved(text) { this.#saved.textContent = text; }

  end() { this.#checker.end(); }
}

function verdictView(result, listed, empty) {
  if (result.state === "checking") return null;
  if (listed.length === 0 && result.state === "valid") return h("p", { class: "good" }, icon("check"), "Ready to send ", h("kbd", null, "Ctrl"), h("kbd", null, "Enter"));
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
    h("label", { class: "field-label", for: control }, label), area, slot(problem));
  return row;
}

// optionList has a button for each option of an agent that is unsure, most probable first.
function optionList({ task, coaching }, choose) {
  if (task.kind !== "unsure") return null;
  const step = coaching.trajectory.find((s) => s.id === coaching.target_step_id);
  const chances = step.internal_steps?.at(-1)?.input_elements?.generation?.candidate?.probabilities ?? [];
  const options = coaching.additional_info.options.map((option, i) => ({
    decision: typeof option === "string" ? { say: option } : option, chance: toNumber(chances[i]) ?? 0,
  })).sort((a, b) => b.chance - a.chance);
  return h("section", { "aria-label": "Options" }, h("p", { class: "palette-title" }, "Which option is right?"),
    h("ul", { class: "palette" }, options.map(({ decision, chance }) => h("li", null,
      button({ class: "palette-tool", onclick: () => choose(decision) },
        decisionView(decision), h("span", { class: "palette-about" }, `${(100 * chance).toFixed(1)} %`))))));
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

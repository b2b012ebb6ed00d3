// The views of a task's head, of the state of its claim, and of its answer. They show what
// they are given and hold no state.

import { pointTitle } from "./composer.js";
import { button, h, icon, iconButton } from "./dom.js";
import { decisionView } from "./decision.js";
import { isObject, parse } from "../json.js";
import { badge } from "./queue.js";
import { textBox, tree } from "./tree.js";
import { age, kindOf, outcomeOf } from "./words.js";

// failureView shows that a task could not be loaded.
export function failureView(error, { retry, back }) {
  return h("div", { class: "empty" },
    h("h1", null, error.status === 404 ? "There is no such task" : "The task could not be loaded"),
    h("p", null, error.message),
    button({ class: "button", onclick: retry }, "Try again"),
    button({ class: "button", onclick: back }, "Back to the list"));
}

// headView shows the kind, title and origin of a task.
export function headView(task, detail, { open, back }) {
  return [
    iconButton("back", "Back to the list", back, { class: "icon-button back" }),
    h("div", { class: "task-title" },
      h("div", { class: "task-meta" }, badge(task.kind), h("span", null, kindOf(task.kind).about)),
      h("h1", { tabindex: "-1" }, task.stage || detail.request.payload_type),
      h("p", { class: "task-facts" },
        task.run_id ? h("span", null, "Run ", h("code", null, task.run_id)) : null,
        h("span", null, `arrived ${ago(task.received_at)}`),
        open && !task.agent_waiting ? h("span", { class: "notice-inline" }, icon("clock"), "The agent is not connected now; it gets the answer when it asks again.") : null)),
  ];
}

function ago(when) {
  const text = age(Date.parse(when), Date.now());
  return text === "just now" ? text : `${text} ago`;
}

// mineView: the person works on the task. by is who wrote the draft that it goes on from.
export function mineView(by, { startAfresh, release }) {
  return h("div", { class: "state mine" }, icon("person"),
    h("p", null, "You are working on this. ", by ? `It goes on from ${by}’s draft.` : "",
      by ? [" ", button({ class: "link", onclick: startAfresh }, "Start afresh")] : null),
    button({ class: "button small", dataset: { action: "release" }, onclick: release }, "Put back"));
}

// lostView: the claim was lost, to another person or for a reason.
export function lostView(other, reason, refusal, { take, copy }) {
  return h("div", { class: "state lost", role: "alert" }, icon("warn"),
    h("div", null,
      h("p", null, h("strong", null, "The task is no longer yours."), " ", other ? `${other} is working on it.` : reason),
      h("p", null, "What you wrote is still here and is kept in this browser."),
      h("div", { class: "row" },
        claimButton(other ? "Try to take it" : "Take it again", take),
        button({ class: "button small", onclick: copy }, icon("copy"), "Copy what I wrote")),
      refusalView(refusal)));
}

// busyView: another person has the task, or another window of this one.
export function busyView(other, refusal, { take }) {
  return h("div", { class: "state busy" }, icon("person"),
    h("div", null,
      h("p", null, h("strong", null, other ? `${other} is working on it` : "You are working on this in another window")),
      h("p", { class: "muted" }, "You can read along. The task is free again when it is put back or when nobody has been at it for a while."),
      h("div", { class: "row" }, claimButton("Try to take it", take))),
    refusalView(refusal));
}

// freeView: nobody has the task.
export function freeView(hasDraft, refusal, { take }) {
  return h("div", { class: "state free" },
    h("div", null, h("h2", null, "Nobody is working on this yet"),
      h("p", null, hasDraft ? "There is a draft to go on from. Taking the task keeps others from doing the same work." : "Taking it keeps others from doing the same work. It is yours while this page is open."),
      refusalView(refusal)),
    button({ class: "button primary wide", dataset: { action: "claim" }, onclick: take }, "Work on this"));
}

function claimButton(label, take) {
  return button({ class: "button small", dataset: { action: "claim" }, onclick: take }, label);
}

function refusalView(text) {
  return h("p", { class: "claim-refusal", role: "alert" }, text);
}

// doneView shows an ended task. copy, if it is given, copies what the person wrote.
export function doneView(task, detail, { copy, next }) {
  const outcome = task.outcome ?? "withdrawn";
  return h("div", { class: `state done ${outcome}`, dataset: { outcome } },
    h("h2", { tabindex: "-1" }, icon(outcome === "completed" ? "check" : "close"), outcomeOf(task)),
    task.state === "withdrawn" ? h("p", null, "The agent took the task back before anybody answered. There is nothing left to do.") : null,
    task.claimed_by && task.outcome ? h("p", { class: "muted" }, `By ${task.claimed_by}`) : null,
    detail.answer ? answerView(detail.answer, detail) : null,
    h("div", { class: "row" },
      copy ? button({ class: "button small", onclick: copy }, icon("copy"), "Copy what I wrote") : null,
      button({ class: "button small", dataset: { action: "next" }, onclick: next }, "Next task")));
}

function answerView(answer, detail) {
  if (answer.error) return h("div", null, h("span", { class: "told-by" }, "Reason"), h("p", { class: "reason" }, answer.error));
  if (!answer.output) return null;
  let value;
  try {
    value = parse(answer.output);
  } catch {
    return textBox(answer.output, "the answer");
  }
  const { reinjection_point_id: at, ...rest } = isObject(value) ? value : {};
  const point = detail.points.find((p) => p.id === at);
  return [
    point ? h("p", { class: "muted" }, pointTitle(point, detail)) : null,
    typeof rest.say === "string" && Array.isArray(rest.tool_calls) ? decisionView(rest) : tree(value, { open: true }),
  ];
}

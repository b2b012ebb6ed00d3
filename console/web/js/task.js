// One task: its head, what happened, and the desk where a person works on it.

import { api } from "./api.js";
import { createClaim } from "./claim.js";
import { createComposer, pointTitle } from "./composer.js";
import { announce, button, fill, h, icon, iconButton, key } from "./dom.js";
import { decisionView } from "./decision.js";
import { askAbandon } from "./dialog.js";
import { createKeeper, newest } from "./draft.js";
import { isObject, parse, pretty } from "./json.js";
import { memory } from "./memory.js";
import { badge } from "./queue.js";
import { story } from "./story.js";
import { textBox, tree } from "./tree.js";
import { age, kindOf, outcomeOf } from "./words.js";
import { begin, decision, isEmpty, restore } from "./work.js";

// createTask shows a task. Options: me (what /api/me said), needName()
// resolves to the person's name, back() leaves, next() opens the next task.
export function createTask(id, { me, needName, back, next: goOn }) {
  const element = h("article", { class: "task" }, h("p", { class: "loading" }, "Loading…"));
  const head = h("div", { class: "task-head" });
  const status = h("div", { class: "desk-state" });
  const workplace = h("div", { class: "workplace" });
  let detail = null;
  let task = null;
  let work = null;
  let composer = null;
  let tale = null;
  let loss = ""; // why the claim was lost
  let taking = false;
  let ended = false;

  const claim = createClaim(id, {
    seconds: me.claim_seconds ?? 120,
    onchange(state, reason) {
      loss = reason;
      drawDesk("");
      if (state === "lost") announce(`You lost the task. ${reason}`);
    },
    ontask: (next) => { task = next; drawHead(); },
  });
  const keeper = createKeeper(id, {
    claim,
    onstate: (state) => composer?.setSaved({ saving: "Saving…", saved: "Draft saved", here: "Draft kept in this browser" }[state]),
  });

  async function load() {
    try {
      detail = await api.task(id);
    } catch (error) {
      if (ended) return;
      fill(element, h("div", { class: "empty" }, h("h1", null, error.status === 404 ? "There is no such task" : "The task could not be loaded"),
        h("p", null, error.message), button({ class: "button", onclick: load }, "Try again"), button({ class: "button", onclick: back }, "Back to the list")));
      return;
    }
    if (ended) return;
    task = detail.task;
    const draft = isOpen() ? newest(detail.draft, id) : null;
    work = restore(draft, detail);
    tale = story(detail, (point) => { if (composer) composer.choose(point); else if (isOpen()) { work.point = point; tale.pick(point); } });
    tale.pick(work.point);
    await claim.resume();
    if (ended) return;
    fill(element, head, h("div", { class: "task-body" }, tale.element,
      h("section", { class: "desk", id: "desk", "aria-label": "Your correction", tabindex: "-1" }, status, workplace)),
    button({ class: "to-desk", onclick: toDesk }, icon("down"), "To the correction"));
    drawHead();
    drawDesk("");
  }

  const isOpen = () => task.state === "waiting" || task.state === "claimed";

  function drawHead() {
    if (!detail) return;
    fill(head,
      iconButton("back", "Back to the list", back, { class: "icon-button back" }),
      h("div", { class: "task-title" },
        h("div", { class: "task-meta" }, badge(task.kind), h("span", null, kindOf(task.kind).about)),
        h("h1", { tabindex: "-1" }, task.stage || detail.request.payload_type),
        h("p", { class: "task-facts" },
          task.run_id ? h("span", null, "Run ", h("code", null, task.run_id)) : null,
          h("span", null, `arrived ${ago(task.received_at)}`),
          isOpen() && !task.agent_waiting ? h("span", { class: "notice-inline" }, icon("clock"), "The agent is not connected now; it gets the answer when it asks again.") : null)));
  }

  function ago(when) {
    const text = age(Date.parse(when), Date.now());
    return text === "just now" ? text : `${text} ago`;
  }

  function drawDesk(reason) {
    if (!detail) return;
    if (!isOpen()) {
      endComposer();
      fill(status);
      fill(workplace, doneView());
      return;
    }
    if (taking) return; // what comes next is a matter of moments
    fill(status, stateView(reason));
    if (claim.state === "none") {
      endComposer();
      fill(workplace);
      return;
    }
    if (composer) return;
    composer = createComposer({
      detail, work, canAsk: me.agent === true,
      onchange: () => keeper.save(work),
      onpoint: (point) => tale.pick(point),
      send: (content) => answer({ ...content, status: "completed", ...(work.keep ? { force_save_example: true } : {}) }),
      abandon,
    });
    fill(workplace, composer.element);
    if (work.by) composer.setSaved("Draft restored");
  }

  function endComposer() {
    composer?.end();
    composer = null;
  }

  function stateView(reason) {
    if (claim.state === "mine") {
      const from = work.by && work.by !== memory.name() && !isEmpty(work) ? `It goes on from ${work.by}’s draft.` : "";
      return h("div", { class: "state mine" }, icon("person"), h("p", null, "You are working on this. ", from,
        from ? [" ", button({ class: "link", onclick: startAfresh }, "Start afresh")] : null),
      button({ class: "button small", dataset: { action: "release" }, onclick: release }, "Put back"));
    }
    const other = task.state === "claimed" && task.claimed_by ? task.claimed_by : "";
    if (claim.state === "lost") {
      return h("div", { class: "state lost", role: "alert" }, icon("warn"),
        h("div", null, h("p", null, h("strong", null, "The task is no longer yours."), " ", other ? `${other} is working on it.` : loss),
          h("p", null, "What you wrote is still here and is kept in this browser."),
          h("div", { class: "row" },
            button({ class: "button small", dataset: { action: "claim" }, onclick: take }, other ? "Try to take it" : "Take it again"),
            button({ class: "button small", onclick: copyWork }, icon("copy"), "Copy what I wrote")),
          h("p", { class: "claim-refusal", role: "alert" }, reason)));
    }
    if (other) {
      return h("div", { class: "state busy" }, icon("person"), h("div", null,
        h("p", null, h("strong", null, other === memory.name() ? "You are working on this in another window" : `${other} is working on it`)),
        h("p", { class: "muted" }, "You can read along. The task is free again when it is put back or when nobody has been at it for a while."),
        h("div", { class: "row" }, button({ class: "button small", dataset: { action: "claim" }, onclick: take }, "Try to take it"))),
      h("p", { class: "claim-refusal", role: "alert" }, reason));
    }
    return h("div", { class: "state free" },
      h("div", null, h("h2", null, "Nobody is working on this yet"),
        h("p", null, task.has_draft || !isEmpty(work) ? "There is a draft to go on from. Taking the task keeps others from doing the same work." : "Taking it keeps others from doing the same work. It is yours while this page is open."),
        h("p", { class: "claim-refusal", role: "alert" }, reason)),
      button({ class: "button primary wide", dataset: { action: "claim" }, onclick: take }, "Work on this ", key("c")));
  }

  async function take() {
    if (!detail || !isOpen() || claim.state === "mine" || taking) return;
    if (!(await needName())) return;
    const wroteOn = claim.state === "lost"; // what this page holds is then what the person wants
    taking = true; // nobody writes before the newest draft is there
    try {
      await claim.take();
      const latest = wroteOn ? null : await api.task(id).catch(() => null);
      const draft = latest && newest(latest.draft, id);
      if (draft && !ended) Object.assign(work, restore(draft, detail));
    } catch (error) {
      taking = false;
      await refresh(); // it tells who was faster
      drawDesk(error.message);
      return;
    }
    taking = false;
    if (ended || claim.state !== "mine") return;
    tale.pick(work.point);
    drawDesk("");
    announce("The task is yours");
    const first = workplace.querySelector(".panel textarea, .panel input, .panel button");
    first?.focus({ preventScroll: true });
  }

  async function release() {
    await keeper.flush();
    endComposer();
    try {
      await claim.release();
    } catch (error) {
      if (!error.offline) drawDesk(error.message);
    }
    await refresh();
    announce("The task was put back");
  }

  function startAfresh() {
    Object.assign(work, begin(detail), { by: "" });
    composer?.redraw();
    keeper.save(work);
    drawDesk("");
  }

  async function copyWork() {
    let text = work.mode === "json" ? work.json : work.raw;
    if (work.mode === "reply" || work.mode === "tools") text = pretty(decision(work));
    try {
      await navigator.clipboard.writeText(text);
      announce("Copied");
    } catch {
      fill(status.querySelector(".row"), textBox(text, "what you wrote")); // to be copied by hand
    }
  }

  async function answer(body) {
    if (claim.state !== "mine") {
      announce("The task is no longer yours");
      status.querySelector("button")?.focus();
      return;
    }
    await keeper.flush();
    try {
      const { task: next } = await api.answer(id, { ...body, claim: claim.secret });
      task = next;
      keeper.forget();
      claim.done();
      announce("Sent. Thank you.");
      await refresh();
      element.querySelector("[data-action=next]")?.focus();
    } catch (error) {
      if (error.status === 409) {
        await refresh();
        if (isOpen()) claim.lose(error.message);
      } else if (error.problems.length > 0) composer.problems(error.problems);
      else composer?.problems([{ loc: [], msg: error.offline ? "It was not sent: the console cannot be reached. Nothing is lost; try again." : error.message }]);
    }
  }

  async function abandon() {
    if (claim.state !== "mine") return;
    const ending = await askAbandon();
    if (ending) await answer(ending);
  }

  function doneView() {
    const given = detail.answer;
    const title = outcomeOf(task);
    const mine = task.state === "withdrawn" && work && !isEmpty(work) ? button({ class: "button small", onclick: copyWork }, icon("copy"), "Copy what I wrote") : null;
    return h("div", { class: `state done ${task.outcome ?? "withdrawn"}`, dataset: { outcome: task.outcome ?? "withdrawn" } },
      h("h2", null, icon(task.outcome === "completed" ? "check" : "close"), title),
      task.state === "withdrawn" ? h("p", null, "The agent took the task back before anybody answered. There is nothing left to do.") : null,
      task.claimed_by && task.outcome ? h("p", { class: "muted" }, `By ${task.claimed_by}`) : null,
      given ? answerView(given, detail) : null, h("div", { class: "row" }, mine,
        button({ class: "button small", dataset: { action: "next" }, onclick: goOn }, "Next task ", key("j"))));
  }

  // refresh looks at the task again and redraws what changed.
  async function refresh() {
    if (!detail) return;
    let next;
    try {
      next = await api.task(id);
    } catch {
      return; // the page says so elsewhere
    }
    if (ended) return;
    detail.answer = next.answer;
    update(next.task, true);
  }

  function update(next, force = false) {
    if (!detail) return;
    const before = task;
    task = next;
    const told = (t) => [t.state, t.claimed_by, t.agent_waiting, t.has_draft].join("|");
    if (!force && told(before) === told(next)) return;
    drawHead();
    if (claim.state === "mine" && isOpen()) return;
    if (!isOpen() && detail.answer === null && next.state === "done" && !force) {
      refresh();
      return;
    }
    if (!isOpen() && claim.state !== "none") claim.done();
    else drawDesk("");
  }

  function toDesk() {
    const desk = element.querySelector("#desk");
    desk?.scrollIntoView({ block: "start" });
    desk?.focus({ preventScroll: true });
  }

  load();
  return {
    element, id, take, abandon, update, toDesk,
    // left: the task is no longer among those that wait
    left() { if (detail && isOpen()) refresh(); },
    toTarget() {
      const target = element.querySelector("#target-step");
      target?.scrollIntoView({ block: "center" });
      target?.focus({ preventScroll: true });
    },
    mode: (mode) => composer?.setMode(mode),
    ask: () => composer?.ask(),
    send: () => composer?.trySend(),
    // back in reach of the console
    async reconnected() {
      await refresh();
      if (claim.state !== "mine") return;
      await keeper.flush();
      composer?.recheck();
    },
    end() {
      keeper.flush();
      ended = true;
      claim.end();
      endComposer();
    },
  };
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

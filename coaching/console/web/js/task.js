// One task: its head, its timeline, and the editor in which a person corrects it.

import { api } from "./api.js";
import { Claim } from "./claim.js";
import { Composer } from "./composer.js";
import { announce, button, fill, h, icon } from "./dom.js";
import { askAbandon } from "./dialog.js";
import { createKeeper, newest } from "./draft.js";
import { coalesce } from "./live.js";
import { pretty } from "../json.js";
import { storage } from "./storage.js";
import { busyView, doneView, failureView, freeView, headView, lostView, mineView } from "./taskviews.js";
import { timeline } from "./timeline.js";
import { textBox } from "./tree.js";
import { outcomeOf } from "./words.js";
import { begin, decision, isEmpty, restore } from "./work.js";

const isOpen = (task) => task.state === "waiting" || task.state === "claimed";

// Task shows a task. Options: me is the answer of /api/me, needName() resolves to the
// person's name, back() leaves the task, next() opens the next one.
export class Task {
  composer = null; // while the person works on the task
  element = h("article", { class: "task" }, h("p", { class: "loading" }, "Loading…"));
  #head = h("div", { class: "task-head" });
  #status = h("div", { class: "claim-state" });
  #workplace = h("div", { class: "workplace" });
  #options;
  #claim;
  #keeper;
  #detail = null; // as loaded; null until then
  #task = null; // its newest summary
  #work = null;
  #timeline = null;
  #loss = ""; // why the claim was lost
  #taking = false;
  #ended = false;

  constructor(id, options) {
    this.id = id;
    this.#options = options;
    this.#claim = new Claim(id, {
      seconds: options.me.claim_seconds ?? 120,
      onchange: (state, reason) => this.#claimChanged(state, reason),
      ontask: (task) => { this.#task = task; this.#drawHead(); },
    });
    this.#keeper = createKeeper(id, {
      claim: this.#claim,
      onstate: (state) => this.composer?.setSaved({ saving: "Saving…", saved: "Draft saved", here: "Draft kept in this browser" }[state]),
    });
    this.#load();
  }

  async #load() {
    try {
      this.#detail = await api.task(this.id);
    } catch (error) {
      if (!this.#ended) fill(this.element, failureView(error, { retry: () => this.#load(), back: this.#options.back }));
      return;
    }
    if (this.#ended) return;
    this.#task = this.#detail.task;
    const draft = this.#isOpen ? newest(this.#detail.draft, this.#task) : null;
    this.#work = restore(draft, this.#detail);
    this.#timeline = timeline(this.#detail, (point) => this.#pointPicked(point));
    this.#timeline.pick(this.#work.point);
    await this.#claim.resume(this.#task);
    if (this.#ended) return;
    fill(this.element, this.#head, h("div", { class: "task-body" }, this.#timeline.element,
      h("section", { class: "editor", id: "editor", "aria-label": "Your correction", tabindex: "-1" }, this.#status, this.#workplace)),
    button({ class: "to-editor", onclick: () => this.#toEditor() }, icon("down"), "To the correction"));
    this.#drawHead();
    this.#drawEditor("");
  }

  get #isOpen() { return isOpen(this.#task); }

  #pointPicked(point) {
    if (this.composer) {
      this.composer.choose(point);
    } else if (this.#isOpen) {
      this.#work.point = point;
      this.#timeline.pick(point);
    }
  }

  #claimChanged(state, reason) {
    this.#loss = reason;
    this.#drawEditor("");
    if (state === "lost") announce(`You lost the task. ${reason}`);
  }

  #drawHead() {
    if (this.#detail) fill(this.#head, headView(this.#task, this.#detail, { open: this.#isOpen, back: this.#options.back }));
  }

  // drawEditor shows the state of the claim, with the reason of a refusal, and the composer
  // or the answer.
  #drawEditor(refusal) {
    if (!this.#detail) return;
    if (!this.#isOpen) {
      this.#endComposer();
      fill(this.#status);
      fill(this.#workplace, this.#doneView());
      return;
    }
    if (this.#taking) return; // take draws it in a moment
    fill(this.#status, this.#claimView(refusal));
    if (this.#claim.state === "none") {
      this.#endComposer();
      fill(this.#workplace);
      return;
    }
    if (!this.composer) this.#startComposer();
  }

  #startComposer() {
    const work = this.#work;
    this.composer = new Composer({
      detail: this.#detail, work, canAsk: this.#options.me.agent === true,
      onchange: () => this.#keeper.save(work),
      onpoint: (point) => this.#timeline.pick(point),
      send: (content) => this.#answer({ ...content, status: "completed", ...(work.keep ? { force_save_example: true } : {}) }),
      abandon: () => this.abandon(),
    });
    fill(this.#workplace, this.composer.element);
    if (work.by) this.composer.setSaved("Draft restored");
  }

  #endComposer() {
    this.composer?.end();
    this.composer = null;
  }

  #claimView(refusal) {
    const task = this.#task;
    const take = () => this.take();
    const empty = isEmpty(this.#work);
    if (this.#claim.state === "mine") {
      const by = this.#work.by && this.#work.by !== storage.name() && !empty ? this.#work.by : "";
      return mineView(by, { startAfresh: () => this.#startAfresh(), release: () => this.#release() });
    }
    const other = task.state === "claimed" && task.claimed_by ? task.claimed_by : "";
    if (this.#claim.state === "lost") return lostView(other, this.#loss, refusal, { take, copy: () => this.#copyWork() });
    if (other) return busyView(other === storage.name() ? "" : other, refusal, { take });
    return freeView(task.has_draft || !empty, refusal, { take });
  }

  #doneView() {
    const copy = this.#work && !isEmpty(this.#work) ? () => this.#copyWork() : null;
    return doneView(this.#task, this.#detail, { copy, next: this.#options.next });
  }

  // take claims the task for the person.
  async take() {
    if (!this.#detail || !this.#isOpen || this.#claim.state === "mine" || this.#taking) return;
    if (!(await this.#options.needName())) return;
    const wroteOn = this.#claim.state === "lost"; // then the person wants what this page has
    this.#taking = true; // no edits until the newest draft is loaded
    try {
      await this.#claim.take();
      const latest = wroteOn ? null : await api.task(this.id).catch(() => null);
      const draft = latest && newest(latest.draft, this.#task);
      if (draft && !this.#ended) Object.assign(this.#work, restore(draft, this.#detail));
    } catch (error) {
      this.#taking = false;
      await this.#refresh(); // shows who has it
      this.#drawEditor(error.message);
      return;
    }
    this.#taking = false;
    if (this.#ended || this.#claim.state !== "mine") return;
    this.#timeline.pick(this.#work.point);
    this.#drawEditor("");
    announce("The task is yours");
    this.#workplace.querySelector(".palette button, .panel :is(textarea, input, button)")?.focus({ preventScroll: true });
  }

  async #release() {
    await this.#keeper.flush();
    this.#endComposer();
    try {
      await this.#claim.release();
    } catch (error) {
      if (!error.offline) this.#drawEditor(error.message);
    }
    await this.#refresh();
    announce("The task was put back");
  }

  #startAfresh() {
    Object.assign(this.#work, begin(this.#detail), { by: "" });
    this.composer?.redraw();
    this.#keeper.save(this.#work);
    this.#drawEditor("");
  }

  async #copyWork() {
    const work = this.#work;
    const text = work.mode === "raw" ? work.raw : pretty(decision(work));
    try {
      await navigator.clipboard.writeText(text);
      announce("Copied");
    } catch {
      this.element.querySelector(".editor .row").after(textBox(text, "what you wrote")); // to copy by hand
    }
  }

  async #answer(body) {
    if (this.#claim.state !== "mine") {
      announce("The task is no longer yours");
      this.#status.querySelector("button")?.focus();
      return;
    }
    await this.#keeper.flush();
    try {
      const { task } = await api.answer(this.id, { ...body, claim: this.#claim.secret });
      this.#task = task;
      this.#work = null; // it is in the answer
      this.#keeper.forget();
      this.#claim.done();
      announce("Sent. Thank you.");
      await this.#refresh();
      this.element.querySelector("[data-action=next]")?.focus();
    } catch (error) {
      await this.#answerFailed(error);
    }
  }

  async #answerFailed(error) {
    if (error.status === 409) {
      await this.#refresh();
      if (this.#isOpen) this.#claim.lose(error.message);
    } else if (error.problems.length > 0) {
      this.composer.problems(error.problems);
    } else {
      this.composer?.problems([{ loc: [], msg: error.offline ? "It was not sent: the console cannot be reached. Nothing is lost; try again." : error.message }]);
    }
  }

  // abandon ends the task without a correction, after the person has given a reason.
  async abandon() {
    if (this.#claim.state !== "mine") return;
    const ending = await askAbandon();
    if (ending) await this.#answer(ending);
  }

  // refresh loads the task again and redraws what changed.
  async #refresh() {
    if (!this.#detail) return;
    let next;
    try {
      next = await api.task(this.id);
    } catch {
      return; // the page shows elsewhere that it is offline
    }
    if (this.#ended) return;
    this.#detail.answer ??= next.answer;
    this.update(next.task, true);
  }

  // update shows a newer summary of the task.
  update(next, force = false) {
    // After this page has answered, what was read before that may still arrive.
    if (!this.#detail || (!this.#work && isOpen(next))) return;
    const before = this.#task;
    this.#task = next;
    const shown = (t) => [t.state, t.claimed_by, t.agent_waiting, t.has_draft].join("|");
    if (!force && shown(before) === shown(next)) return;
    this.#drawHead();
    if (this.#claim.state === "mine" && this.#isOpen) return;
    if (!this.#isOpen && this.#detail.answer === null && next.state === "done" && !force) {
      this.#refresh();
      return;
    }
    if (this.#isOpen || this.#claim.state === "none") {
      this.#drawEditor("");
      return;
    }
    this.#claim.done();
    announce(`The task has ended: ${outcomeOf(next)}`);
    this.#workplace.querySelector("h2").focus({ preventScroll: true });
  }

  // left is called when the task is no longer in the list. A second call must not draw the end again.
  left = coalesce(async () => { if (this.#detail && this.#isOpen) await this.#refresh(); });

  #toEditor() {
    const editor = this.element.querySelector("#editor");
    editor.scrollIntoView();
    editor.focus({ preventScroll: true });
  }

  // reconnected is called when the console is reachable again.
  async reconnected() {
    await this.#refresh();
    if (this.#claim.state !== "mine") return;
    await this.#keeper.flush();
    this.composer?.recheck();
  }

  end() {
    this.#keeper.flush();
    this.#ended = true;
    this.#claim.end();
    this.#endComposer();
  }
}

// A claim on a task. A person takes it, and the page renews it while they are active. It is
// lost when it lapses.

import { api } from "./api.js";
import { storage } from "./storage.js";

const renewals = 3; // in the lifetime of a claim
const otherTab = 1500; // ms to wait for another page of this browser to close
const away = 10 * 60 * 1000; // ms without input, after which the claim is released

let lastSign = Date.now();
for (const type of ["pointerdown", "keydown", "input", "wheel"]) {
  addEventListener(type, () => { lastSign = Date.now(); }, { capture: true, passive: true });
}

// onlyHere locks the task against other pages of this browser, which would overwrite this
// page's draft. It resolves to a function that unlocks it, or to null if another page has it.
function onlyHere(id) {
  if (!navigator.locks) return Promise.resolve(() => {}); // without TLS, see storage.js
  return new Promise((resolve) => {
    const held = () => new Promise((end) => { resolve(end); });
    navigator.locks.request(`agentd.claim.${id}`, { signal: AbortSignal.timeout(otherTab) }, held).catch(() => resolve(null));
  });
}

// Claim holds the claim of one task. Its states are none, mine and lost. Options: seconds is its
// lifetime; onchange is called with (state, reason) when the state changes, ontask with a newer
// summary of the task.
export class Claim {
  task; // known once it is loaded
  secret = null;
  state = "none";
  #id;
  #options;
  #timer = 0;
  #ended = false;
  #unlockTab = null; // lets other pages of this browser take the task

  constructor(id, options) {
    this.#id = id;
    this.#options = options;
  }

  // resume takes up a claim that this browser had before.
  async resume(task) {
    this.task = task;
    this.secret = storage.claim(task);
    if (!this.secret || !storage.name()) return;
    this.#unlockTab = await onlyHere(this.#id);
    if (!this.#unlockTab || this.#ended) {
      this.#unlock();
      return;
    }
    try {
      await this.#ask(this.secret);
      this.#set("mine");
    } catch (error) {
      if (!error.offline) this.#keep(null);
      this.#unlock();
    }
  }

  // take claims the task. It throws if somebody else has it.
  async take() {
    await this.#ask(null);
    lastSign = Date.now();
    this.#set("mine");
    onlyHere(this.#id).then((unlock) => {
      this.#unlockTab = unlock;
      if (this.#ended || this.state !== "mine") this.#unlock();
    });
  }

  // lose is called with the reason when an answer shows that the claim is gone.
  lose(reason) {
    if (this.state !== "mine") return;
    const old = this.secret;
    this.#keep(null);
    this.#set("lost", reason);
    if (old) api.release(this.#id, old).catch(() => {}); // it may have lapsed
  }

  async release() {
    const old = this.secret;
    this.done();
    if (old) await api.release(this.#id, old);
  }

  // done forgets the claim of an answered task.
  done() {
    this.#keep(null);
    this.#set("none");
  }

  // end stops renewing. The browser still has the claim.
  end() {
    this.#ended = true;
    clearInterval(this.#timer);
    this.#unlock();
  }

  #set(next, reason = "") {
    this.state = next;
    clearInterval(this.#timer);
    if (next !== "mine") this.#unlock();
    else if (!this.#ended) this.#timer = setInterval(() => this.#renew(), Math.max(2, this.#options.seconds / renewals) * 1000);
    if (!this.#ended) this.#options.onchange(next, reason);
  }

  #keep(secret) {
    this.secret = secret;
    storage.setClaim(this.task, secret);
  }

  #unlock() {
    this.#unlockTab?.();
    this.#unlockTab = null;
  }

  async #ask(known) {
    const { task, claim } = await api.claim(this.#id, storage.name(), known);
    this.#keep(claim);
    this.#options.ontask(task);
  }

  async #renew() {
    if (Date.now() - lastSign > away) {
      this.lose("You have been away for a while, so the task was offered to others again.");
      return;
    }
    try {
      await this.#ask(this.secret);
    } catch (error) {
      if (error.offline) return; // the claim may outlast the outage
      this.lose(error.message);
    }
  }
}

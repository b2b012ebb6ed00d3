// A claim on a task: taken by one person, renewed while that person is at the
// page, lost when it lapses or when nobody is there any more.

import { api } from "./api.js";
import { memory } from "./memory.js";

const renewals = 3; // in the time that a claim lasts
const otherTab = 1500; // ms to wait for a page of this browser that is just closing
const away = 10 * 60 * 1000; // without a key, a click or a turn of the wheel for so long, a claim is let go

let lastSign = Date.now();
for (const type of ["pointerdown", "keydown", "input", "wheel"]) {
  addEventListener(type, () => { lastSign = Date.now(); }, { capture: true, passive: true });
}

// onlyHere resolves to a function that ends it once no other page of this
// browser works on the task, or to null if one does: two pages with one claim
// would overwrite each other's drafts.
function onlyHere(id) {
  if (!navigator.locks) return Promise.resolve(() => {}); // plain HTTP from afar: nothing to ask
  return new Promise((resolve) => {
    const held = () => new Promise((end) => { resolve(end); });
    navigator.locks.request(`agentd.claim.${id}`, { signal: AbortSignal.timeout(otherTab) }, held).catch(() => resolve(null));
  });
}

// createClaim holds the claim of one task. States: none, mine, lost. onchange
// is called with (state, reason) when the state changes, ontask with what the
// console says about the task.
export function createClaim(id, { seconds, onchange, ontask }) {
  let secret = memory.claim(id);
  let state = "none";
  let timer = 0;
  let ended = false;
  let leave = null; // lets other pages of this browser in

  function set(next, reason = "") {
    state = next;
    clearInterval(timer);
    if (next !== "mine") unlock();
    if (next === "mine") timer = setInterval(renew, Math.max(2, seconds / renewals) * 1000);
    if (!ended) onchange(next, reason);
  }

  function keep(next) {
    secret = next;
    memory.setClaim(id, next);
  }

  function unlock() {
    leave?.();
    leave = null;
  }

  async function ask(known) {
    const { task, claim } = await api.claim(id, memory.name(), known);
    keep(claim);
    ontask(task);
  }

  async function renew() {
    if (Date.now() - lastSign > away) {
      lose("You have been away for a while, so the task was offered to others again.");
      return;
    }
    try {
      await ask(secret);
    } catch (error) {
      if (error.offline) return; // the claim may well outlast the break
      lose(error.message);
    }
  }

  // lose is called with the reason when an answer shows that the claim is gone.
  function lose(reason) {
    if (state !== "mine") return;
    const gone = secret;
    keep(null);
    set("lost", reason);
    if (gone) api.release(id, gone).catch(() => {}); // it may have lapsed: nothing left to release
  }

  return {
    get state() { return state; },
    get secret() { return secret; },
    lose,

    // resume takes up a claim that this browser held before.
    async resume() {
      if (!secret || !memory.name()) return;
      leave = await onlyHere(id);
      if (!leave || ended) {
        unlock();
        return;
      }
      try {
        await ask(secret);
        set("mine");
      } catch (error) {
        if (!error.offline) keep(null);
        unlock();
      }
    },

    // take claims the task; it throws when somebody else has it.
    async take() {
      await ask(null);
      lastSign = Date.now();
      set("mine");
      onlyHere(id).then((end) => {
        leave = end;
        if (ended || state !== "mine") unlock();
      });
    },

    async release() {
      const old = secret;
      keep(null);
      set("none");
      if (old) await api.release(id, old);
    },

    // done forgets the claim of an answered task.
    done() {
      keep(null);
      set("none");
    },

    // end stops renewing; the browser still knows the claim.
    end() {
      ended = true;
      clearInterval(timer);
      unlock();
    },
  };
}

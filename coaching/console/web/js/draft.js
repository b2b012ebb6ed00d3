// Drafts are saved at once in this browser, and a moment later in the console. So they survive a
// closed page, and another computer has them too.

import { api } from "./api.js";
import { clone } from "../json.js";
import { debounce } from "./live.js";
import { storage } from "./storage.js";

const pause = 600; // ms without a change before the console gets the draft

// newest returns the newer one of the console's draft and this browser's.
export function newest(fromConsole, task) {
  const here = storage.draft(task);
  return here && String(here.at) > String(fromConsole?.at ?? "") ? here : fromConsole;
}

// createKeeper keeps the draft of one task. onstate is called with saving,
// saved, or here (only this browser has it).
export function createKeeper(id, { claim, onstate }) {
  let latest = null;
  let sending = Promise.resolve();

  async function send() {
    const draft = latest;
    if (draft === null) return;
    if (claim.state !== "mine") {
      onstate("here");
      return;
    }
    try {
      await api.saveDraft(id, claim.secret, draft);
      if (draft === latest) onstate("saved");
    } catch (error) {
      onstate("here");
      if (error.status === 409) claim.lose(error.message);
    }
  }

  // Drafts are sent in order, so an older one never replaces a newer one.
  const soon = debounce(() => { sending = sending.then(send); }, pause);

  return {
    save(work) {
      work.by = storage.name();
      work.at = new Date().toISOString();
      latest = clone(work);
      storage.setDraft(claim.task, latest);
      onstate("saving");
      soon();
    },

    // flush sends a pending draft at once.
    async flush() {
      soon.cancel();
      sending = sending.then(send);
      await sending;
    },

    // forget drops what waits to be sent of a task that is answered.
    forget() {
      soon.cancel();
      latest = null;
    },
  };
}

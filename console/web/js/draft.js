// Keeping drafts: at once in this browser, a moment later with the console, so
// that neither a closed page nor another computer loses what was written.

import { api } from "./api.js";
import { clone } from "./json.js";
import { debounce } from "./live.js";
import { memory } from "./memory.js";

const pause = 600; // ms without a change before the console is told

// newest returns the newer one of the console's draft and this browser's.
export function newest(fromConsole, id) {
  const here = memory.draft(id);
  if (!here) return fromConsole;
  if (!fromConsole) return here;
  return String(here.at ?? "") > String(fromConsole.at ?? "") ? here : fromConsole;
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

  // One after the other, so that an older draft never overtakes a newer one.
  const soon = debounce(() => { sending = sending.then(send); }, pause);

  return {
    save(work) {
      work.by = memory.name();
      work.at = new Date().toISOString();
      latest = clone(work);
      memory.setDraft(id, latest);
      onstate("saving");
      soon();
    },

    // flush sends at once what waits; also again after a break.
    async flush() {
      soon.cancel();
      sending = sending.then(send);
      await sending;
    },

    // forget drops the draft of a task that is answered.
    forget() {
      soon.cancel();
      latest = null;
      memory.setDraft(id, null);
    },
  };
}

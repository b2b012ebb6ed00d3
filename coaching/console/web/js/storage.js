// The browser's storage: the person's name, claims, and unsaved drafts. The page works without
// it, for example if it is disabled or full.

import { parse } from "../json.js";

const prefix = "agentd.";

// Without TLS there are no locks between tabs. A claim then stays in its tab, so that no other writes the same draft.
const all = () => localStorage;
const claims = navigator.locks ? all : () => sessionStorage;

function read(name, from = all) {
  try {
    return from().getItem(prefix + name);
  } catch {
    return null;
  }
}

function write(name, text, to = all) {
  try {
    if (text === null) to().removeItem(prefix + name);
    else to().setItem(prefix + name, text);
  } catch {
    // The console has the draft.
  }
}

// key names a task. Another console on this address, or one with new data, counts its tasks from 1 again.
const key = (task) => `${task.id} ${task.received_at}`;

export const storage = {
  name: () => read("name") ?? "",
  setName: (name) => write("name", name),
  claim: (task) => read(`claim.${key(task)}`, claims),
  setClaim: (task, claim) => write(`claim.${key(task)}`, claim, claims),
  draft: (task) => parse(read(`draft.${key(task)}`) ?? "null"),
  setDraft: (task, draft) => write(`draft.${key(task)}`, JSON.stringify(draft)),
  // forget drops the claims and drafts of all but these tasks.
  forget(tasks) {
    const kept = new Set(tasks.map(key));
    try {
      for (const name of Object.keys(localStorage)) {
        const [, of] = /^agentd\.(?:claim|draft)\.(.+)/.exec(name) ?? [];
        if (of && !kept.has(of)) localStorage.removeItem(name);
      }
    } catch {
      // There is none.
    }
  },
  count: () => Number(read("candidates")) || 3,
  setCount: (n) => write("candidates", String(n)),
};

// The browser's storage: the person's name, claims, and unsaved drafts. The page works without
// it, for example if it is disabled or full.

import { parse } from "../json.js";

const prefix = "agentd.";

function read(name) {
  try {
    return localStorage.getItem(prefix + name);
  } catch {
    return null;
  }
}

function write(name, text) {
  try {
    if (text === null) localStorage.removeItem(prefix + name);
    else localStorage.setItem(prefix + name, text);
  } catch {
    // The console has the draft.
  }
}

function readJSON(name) {
  try {
    return parse(read(name) ?? "null");
  } catch {
    return null;
  }
}

export const storage = {
  name: () => read("name") ?? "",
  setName: (name) => write("name", name),
  claim: (id) => read(`claim.${id}`),
  setClaim: (id, claim) => write(`claim.${id}`, claim),
  draft: (id) => readJSON(`draft.${id}`),
  setDraft: (id, draft) => write(`draft.${id}`, draft === null ? null : JSON.stringify(draft)),
  count: () => Number(read("candidates")) || 3,
  setCount: (n) => write("candidates", String(n)),
};

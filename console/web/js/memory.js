// What this browser remembers: a name, claims, drafts not yet saved. Storage
// may be switched off or full; then the page works and remembers less.

import { parse } from "./json.js";

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
    // Nothing else to do: the console keeps what it was sent.
  }
}

function readJSON(name) {
  try {
    return parse(read(name) ?? "null");
  } catch {
    return null;
  }
}

export const memory = {
  name: () => read("name") ?? "",
  setName: (name) => write("name", name),
  claim: (id) => read(`claim.${id}`),
  setClaim: (id, claim) => write(`claim.${id}`, claim),
  draft: (id) => readJSON(`draft.${id}`),
  setDraft: (id, draft) => write(`draft.${id}`, draft === null ? null : JSON.stringify(draft)),
  singleKeys: () => read("single-keys") !== "off",
  setSingleKeys: (on) => write("single-keys", on ? null : "off"),
  count: () => Number(read("candidates")) || 3,
  setCount: (n) => write("candidates", String(n)),
};

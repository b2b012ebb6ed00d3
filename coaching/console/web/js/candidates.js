// Candidates of an agent server for a point, to pick or edit.

import { api } from "./api.js";
import { announce, button, fill, h, icon } from "./dom.js";
import { decisionView } from "./decision.js";
import { storage } from "./storage.js";
import { count } from "./words.js";

const most = 8;

// createCandidates asks for candidates; onuse(decision) takes one over.
export function createCandidates(id, point, onuse) {
  const results = h("div", { class: "candidates", "aria-live": "polite" });
  const many = h("select", { "aria-label": "How many suggestions", onchange: () => storage.setCount(Number(many.value)) },
    Array.from({ length: most }, (_, i) => h("option", { value: String(i + 1) }, String(i + 1))));
  many.value = String(storage.count());
  const label = h("span", null, "Ask the agent server");
  const ask = button({ class: "button", dataset: { action: "ask" }, onclick: run }, icon("spark"), label);
  let asking = false;

  async function run() {
    if (asking) return;
    asking = true;
    ask.setAttribute("aria-disabled", "true");
    label.textContent = "Asking…";
    try {
      const { candidates } = await api.candidates(id, point(), Number(many.value));
      fill(results, grouped(candidates).map((group) => card(group, onuse)));
      announce(`${count(candidates.length, "suggestion")} from the agent server`);
    } catch (error) {
      fill(results, h("p", { class: "notice warn" }, error.message));
    } finally {
      asking = false;
      ask.removeAttribute("aria-disabled");
      label.textContent = results.firstChild ? "Ask again" : "Ask the agent server";
    }
  }

  const element = h("section", { class: "suggestions", "aria-label": "Suggestions of the agent server" },
    h("div", { class: "suggestions-head" },
      h("p", { class: "muted" }, "What would the agent do here by itself?"),
      h("div", { class: "suggestions-ask" }, many, ask)),
    results);
  return { element, clear: () => fill(results) };
}

// grouped merges equal candidates and counts them.
function grouped(candidates) {
  const groups = new Map();
  for (const candidate of candidates) {
    const same = JSON.stringify([candidate.decision, candidate.error]);
    if (!groups.has(same)) groups.set(same, { ...candidate, times: 0 });
    groups.get(same).times += 1;
  }
  return [...groups.values()].sort((a, b) => Number(b.valid) - Number(a.valid) || b.times - a.times);
}

function card(candidate, onuse) {
  const { decision, error, valid, problems, times } = candidate;
  return h("article", { class: valid ? "candidate" : "candidate doubtful" },
    decision ? decisionView(decision) : h("p", { class: "notice warn" }, error ?? "The agent gave no decision."),
    (problems ?? []).map((p) => h("p", { class: "candidate-problem" }, icon("warn"), h("span", null, p.msg))),
    h("div", { class: "candidate-foot" },
      h("span", { class: "muted" }, times > 1 ? `${times} times` : "", decision && !valid ? " not valid as it is" : ""),
      decision ? button({ class: "button small", onclick: () => onuse(decision) }, valid ? "Use this" : "Edit this") : null));
}

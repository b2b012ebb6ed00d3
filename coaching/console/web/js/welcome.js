// The view without an open task.

import { api } from "./api.js";
import { button, fill, form, h, icon, uid } from "./dom.js";
import { textBox } from "./tree.js";

// connectGuide explains how to pick a task, or how to connect an agent if there is no task.
export function connectGuide(some, first) {
  if (some) {
    return h("div", { class: "empty" }, h("h1", null, "Pick a task"),
      h("p", null, "The one that waits longest is on top."),
      button({ class: "button primary", onclick: first }, "Open the first"));
  }
  const endpoint = new URL(".", location.href).href.replace(/\/$/, ""); // also below a path of a proxy
  const session = { provider: "human", endpoint };
  return h("div", { class: "empty" },
    h("div", { class: "empty-mark", "aria-hidden": "true" }, icon("check")),
    h("h1", null, "Nothing waits for you"),
    h("p", null, "When an agent needs a person, its question appears here by itself."),
    h("section", { class: "guide", "aria-label": "Connecting an agent" },
      h("h2", null, "Connecting an agent"),
      h("p", null, "Let the orchestrator open its coaching session with this console as the human coach:"),
      textBox(`PUT /v1/coaching/sessions/{run_id}\n${JSON.stringify(session, null, 2)}`, "the session's configuration"),
      h("p", null, "Agents of the same protocol that ask people themselves post their requests to ", h("code", null, `${endpoint}/v1/coaching/requests`), ".")));
}

// loginView asks for the console's token.
export function loginView(done) {
  const id = uid("token");
  const problem = h("p", { class: "field-problem", role: "alert", hidden: true });
  const token = h("input", { id, type: "password", autocomplete: "current-password", required: true });
  const login = form("login", async () => {
    try {
      await api.login(token.value);
    } catch (error) {
      problem.hidden = false;
      fill(problem, icon("warn"), h("span", null, error.status === 401 ? "This token is not known here." : error.message));
      token.focus();
      return;
    }
    done();
  },
  h("img", { src: "./assets/icon.svg", alt: "", width: "44", height: "44" }),
  h("h1", null, "agentd console"),
  h("label", { class: "field-label", for: id }, "Access token"), token, problem,
  h("button", { type: "submit", class: "button primary wide" }, "Log in"));
  queueMicrotask(() => token.focus());
  return h("main", { class: "login-page", id: "main" }, login);
}

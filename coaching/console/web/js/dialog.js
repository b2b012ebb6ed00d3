// Dialogs. The browser's dialog element keeps the focus inside and restores it.

import { button, fill, form, h, iconButton, uid } from "./dom.js";
import { storage } from "./storage.js";

// open shows a dialog and resolves to its value: what close was called with,
// or null.
function open(title, build) {
  return new Promise((resolve) => {
    const heading = uid("dialog");
    const dialog = h("dialog", { class: "dialog", "aria-labelledby": heading });
    let result = null;
    const close = (value = null) => { result = value; dialog.close(); };
    fill(dialog,
      h("div", { class: "dialog-head" }, h("h2", { id: heading }, title), iconButton("close", "Close", () => close())),
      build(close));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(result); });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) close(); });
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector("[autofocus]")?.focus();
  });
}

// askName asks who works here; it resolves to the name, or "" if the dialog
// was closed.
export async function askName() {
  const name = await open("What is your name?", (close) => {
    const id = uid("name");
    const input = h("input", { id, type: "text", maxlength: "60", autocomplete: "name", required: true, autofocus: true, value: storage.name() });
    return form("dialog-body", () => {
      if (input.value.trim() !== "") close(input.value.trim());
    },
    h("p", null, "Others see it at the tasks that you work on. This browser remembers it."),
    h("label", { class: "field-label", for: id }, "Name"), input,
    h("div", { class: "dialog-foot" }, h("button", { type: "submit", class: "button primary" }, "Continue")));
  });
  if (name) storage.setName(name);
  return name ?? "";
}

const endings = [
  {
    status: "skipped", title: "Skip",
    about: "There is no good correction, or it is better not to correct this. The agent is told that this repair was abandoned, and goes on by its own rules.",
  },
  {
    status: "aborted", title: "Abort",
    about: "Something is wrong with the task itself: it makes no sense, is broken, or must not go on. The agent is told that coaching failed.",
  },
];

// askAbandon asks how and why to give a task up; it resolves to
// {status, reason} or null.
export function askAbandon() {
  return open("Give this task up", (close) => {
    const name = uid("ending");
    const why = uid("why");
    const reason = h("textarea", { id: why, rows: "3", maxlength: "2000", required: true });
    const body = form("dialog-body", () => {
      const status = body.querySelector(`input[name="${name}"]:checked`).value;
      if (reason.value.trim() !== "") close({ status, reason: reason.value.trim() });
      else reason.focus();
    },
    h("div", { class: "endings", role: "radiogroup", "aria-label": "How" }, endings.map((ending, i) => h("label", { class: "ending" },
      h("input", { type: "radio", name, value: ending.status, checked: i === 0, autofocus: i === 0 }),
      h("span", null, h("strong", null, ending.title), h("span", { class: "ending-about" }, ending.about))))),
    h("label", { class: "field-label", for: why }, "Why? The agent's logs keep this reason."), reason,
    h("div", { class: "dialog-foot" },
      button({ class: "button", onclick: () => close() }, "Keep working"),
      h("button", { type: "submit", class: "button danger" }, "Give it up")));
    return body;
  });
}

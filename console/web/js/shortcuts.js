// Keyboard shortcuts. Single letters do nothing while somebody types, and can be disabled in the
// help.

import { storage } from "./storage.js";

// createShortcuts listens for keys. Each shortcut is {keys, about, single?,
// run}; keys as shown to people.
export function createShortcuts(shortcuts) {
  const singles = new Map(shortcuts.filter((s) => s.single).map((s) => [s.single, s.run]));
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      shortcuts.find((s) => s.send)?.run();
      return;
    }
    if (event.key === "Escape" && typing(event.target)) {
      // Leave the text, so that single keys work again.
      event.target.blur();
      event.target.closest("[tabindex]")?.focus();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || !storage.singleKeys()) return;
    const run = singles.get(event.key);
    if (!run) return;
    event.preventDefault();
    run();
  });
}

function typing(target) {
  if (target.isContentEditable || target.tagName === "TEXTAREA" || target.tagName === "SELECT") return true;
  return target.tagName === "INPUT" && !["radio", "checkbox", "button"].includes(target.type);
}

// JSON as a tree. Large values are in folds that are built when they are opened.

import { button, details, h } from "./dom.js";
import { isObject, isRaw, short } from "../json.js";
import { count } from "./words.js";

const openUpTo = 4; // a list or object with more members starts folded
const longText = 280; // a text longer than this gets a box of its own
const firstMembers = 200; // more are shown on demand

// tree shows any JSON value.
export function tree(value, { open = false } = {}) {
  if (!Array.isArray(value) && !isObject(value)) return leaf(value);
  const names = Object.keys(value);
  if (names.length === 0) return h("span", { class: "tree-leaf tree-null" }, Array.isArray(value) ? "empty list" : "empty");
  return members(value, names, open);
}

function members(value, names, open) {
  const list = h("dl", { class: "tree" });
  const add = (from) => {
    for (const name of names.slice(from, from + firstMembers)) {
      list.append(h("dt", null, name), h("dd", null, member(value[name], open)));
    }
    const rest = names.length - from - firstMembers;
    if (rest <= 0) return;
    const more = button({ class: "link", onclick: () => { row.remove(); add(from + firstMembers); } }, `Show ${rest} more`);
    const row = h("dd", { class: "tree-more" }, more);
    list.append(row);
  };
  add(0);
  return list;
}

function member(value, open) {
  const isList = Array.isArray(value);
  const size = isList || isObject(value) ? Object.keys(value).length : 0;
  if (size === 0 || (open && size <= openUpTo)) return tree(value, { open });
  const summary = h("span", { class: "tree-summary" },
    h("span", { class: "muted" }, isList ? count(size, "item") : count(size, "field")), " ",
    h("code", null, short(value, 60)));
  return details(summary, () => tree(value, { open }));
}

function leaf(value) {
  if (value === null) return h("span", { class: "tree-leaf tree-null" }, "null");
  if (typeof value === "string") {
    if (value.length > longText || value.includes("\n")) return textBox(value);
    return h("span", { class: "tree-leaf tree-string" }, value === "" ? "“”" : value);
  }
  return h("span", { class: "tree-leaf tree-number" }, isRaw(value) ? value.rawJSON : String(value));
}

// textBox shows a long text as it is, in a box that scrolls by itself and can
// be reached with the keyboard.
export function textBox(text, label = "text") {
  return h("pre", { class: "text-box", tabindex: "0", role: "region", "aria-label": label }, text);
}

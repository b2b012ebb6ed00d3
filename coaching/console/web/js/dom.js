// Functions that build the page. All text becomes text nodes, so text of agents is never HTML.

const SVG = "http://www.w3.org/2000/svg";

// Paths of the icons, drawn on a 20 by 20 grid with a round 1.6 stroke.
const icons = {
  add: "M10 4v12M4 10h12",
  close: "M5 5l10 10M15 5L5 15",
  back: "M12 4l-6 6 6 6",
  up: "M5 12l5-5 5 5",
  down: "M5 8l5 5 5-5",
  check: "M4.5 10.5l3.5 3.5 7.5-8",
  clock: "M10 6v4.2l2.8 1.8M17 10a7 7 0 1 1-14 0 7 7 0 0 1 14 0",
  person: "M10 10a3.2 3.2 0 1 0 0-6.4A3.2 3.2 0 0 0 10 10M3.8 17c.5-3.2 3-4.8 6.2-4.8s5.7 1.6 6.2 4.8",
  target: "M10 16a6 6 0 1 0 0-12 6 6 0 0 0 0 12M10 11.6a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2M10 1.5V4M10 16v2.5M1.5 10H4M16 10h2.5",
  tool: "M12.2 4.2a3.8 3.8 0 0 0-4.7 4.9L3.4 13.2a1.7 1.7 0 0 0 0 2.4l1 1a1.7 1.7 0 0 0 2.4 0l4.1-4.1a3.8 3.8 0 0 0 4.9-4.7l-2.4 2.4-2.6-.8-.8-2.6z",
  robot: "M5.5 7.5h9a1.5 1.5 0 0 1 1.5 1.5v6a1.5 1.5 0 0 1-1.5 1.5h-9A1.5 1.5 0 0 1 4 15V9a1.5 1.5 0 0 1 1.5-1.5M10 7.5V4M8 11.6v.8M12 11.6v.8",
  say: "M4.5 4h11A1.5 1.5 0 0 1 17 5.5v7a1.5 1.5 0 0 1-1.5 1.5H9l-4 3v-3h-.5A1.5 1.5 0 0 1 3 12.5v-7A1.5 1.5 0 0 1 4.5 4",
  json: "M7.5 4C5 4 6.5 8.5 4 10c2.5 1.5 1 6 3.5 6M12.5 4C15 4 13.5 8.5 16 10c-2.5 1.5-1 6-3.5 6",
  spark: "M10 3l1.7 5.3L17 10l-5.3 1.7L10 17l-1.7-5.3L3 10l5.3-1.7z",
  send: "M3.5 10L16.5 4l-4 13-3-5.5zM9.5 11.5l7-7.5",
  warn: "M10 3.5l7.3 12.7H2.7zM10 8.5v3.5M10 14.2v.1",
  copy: "M7.5 7.5h8v8h-8zM12.5 7.5v-3h-8v8h3",
};

// Elements that may hold a text of a person or of an agent, in any script.
const texts = new Set(["code", "dd", "dt", "h1", "h2", "h3", "h4", "h5", "input", "p", "pre", "span", "strong", "textarea"]);

let serial = 0;

// uid returns an id that no other element of the page has.
export function uid(prefix = "u") {
  serial += 1;
  return `${prefix}-${serial}`;
}

// h builds an element. Props are attributes; onclick and the like are
// listeners; class, dataset and the values of controls set the properties.
// Children that are null, undefined or false are left out.
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  if (texts.has(tag)) element.dir = "auto"; // from right to left where the text is
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "value" || name === "checked" || name === "hidden") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

// fill replaces the children of an element.
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

// icon draws one of the icons above. Screen readers skip it.
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", icons[name]);
  svg.append(path);
  return svg;
}

// button builds a button that does not submit forms.
export function button(props, ...children) {
  return h("button", { type: "button", ...props }, ...children);
}

// form builds a form that calls onsubmit() and isn't sent.
export function form(look, onsubmit, ...children) {
  return h("form", { class: look, onsubmit(event) { event.preventDefault(); onsubmit(); } }, ...children);
}

// iconButton builds a button with an icon. Its label is for screen readers and a tooltip.
export function iconButton(name, label, onclick, props) {
  return button({ class: "icon-button", "aria-label": label, title: label, onclick, ...props }, icon(name));
}

// announce reads a sentence to users of a screen reader.
export function announce(sentence) {
  const place = document.getElementById("announcer");
  // A repeated sentence is read again only if the text changes in between.
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = sentence; });
}

// details builds a fold whose content is built when it is first opened. A trajectory may have
// megabytes of prompts.
export function details(summary, build, props) {
  const body = h("div", { class: "fold-body" });
  const element = h("details", { class: "fold", ...props }, h("summary", null, summary), body);
  let built = false;
  const open = () => {
    if (built || !element.open) return;
    built = true;
    append(body, [build()]);
  };
  element.addEventListener("toggle", open);
  open();
  return element;
}

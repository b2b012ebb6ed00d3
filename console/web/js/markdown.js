// A subset of Markdown: headings, lists, quotes, fences, emphasis. Other syntax stays plain
// text.

import { h } from "./dom.js";
import { textBox } from "./tree.js";

const fence = /^ {0,3}(`{3,}|~{3,})\s*(\S*)/;
const heading = /^(#{1,6})\s+(.*?)\s*#*$/;
const item = /^ {0,3}(?:[-*+]|(\d{1,4})[.)])\s+(.*)$/;
const rule = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const inline = /(`+)(.+?)\1(?!`)|\*\*(.+?)\*\*|(?<![\w*])\*([^*\s][^*]*?)\*(?![\w*])/g;

// markdown returns an element that shows the text.
export function markdown(text) {
  const root = h("div", { class: "prose" });
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  for (let i = 0; i < lines.length;) i = block(root, lines, i);
  return root;
}

// block reads one block that starts at line i and returns where the next
// starts.
function block(root, lines, i) {
  const line = lines[i];
  if (line.trim() === "") return i + 1;
  if (fence.test(line)) return fenced(root, lines, i);
  const title = heading.exec(line);
  if (title) {
    // The page has its own h1 and h2.
    root.append(h(`h${Math.min(6, title[1].length + 2)}`, null, spans(title[2])));
    return i + 1;
  }
  if (rule.test(line)) {
    root.append(h("hr"));
    return i + 1;
  }
  if (item.test(line)) return list(root, lines, i);
  if (line.startsWith(">")) return quote(root, lines, i);
  return paragraph(root, lines, i);
}

function fenced(root, lines, i) {
  const mark = fence.exec(lines[i])[1];
  const body = [];
  let j = i + 1;
  for (; j < lines.length; j++) {
    const end = lines[j].trim();
    if (end.length >= mark.length && end === mark[0].repeat(end.length)) break;
    body.push(lines[j]);
  }
  root.append(textBox(body.join("\n"), "code"));
  return j + 1;
}

function list(root, lines, i) {
  const ordered = item.exec(lines[i])[1] !== undefined;
  const element = h(ordered ? "ol" : "ul");
  if (ordered) element.setAttribute("start", item.exec(lines[i])[1]);
  let j = i;
  while (j < lines.length) {
    const found = item.exec(lines[j]);
    if (found && (found[1] !== undefined) === ordered && !rule.test(lines[j])) {
      element.append(h("li", null, spans(found[2])));
    } else if (/^\s{2,}\S/.test(lines[j])) {
      element.lastElementChild.append(h("br"), ...spans(lines[j].trim()));
    } else break;
    j++;
  }
  root.append(element);
  return j;
}

function quote(root, lines, i) {
  const body = [];
  let j = i;
  for (; j < lines.length && lines[j].startsWith(">"); j++) body.push(lines[j].replace(/^> ?/, ""));
  const element = h("blockquote");
  // A quote in a quote stays plain text.
  element.append(...joined(body));
  root.append(element);
  return j;
}

function paragraph(root, lines, i) {
  let j = i + 1;
  const starts = (line) => line.trim() === "" || fence.test(line) || heading.test(line) || item.test(line) || rule.test(line) || line.startsWith(">");
  while (j < lines.length && !starts(lines[j])) j++;
  root.append(h("p", null, joined(lines.slice(i, j))));
  return j;
}

function joined(lines) {
  return lines.flatMap((line, i) => (i === 0 ? spans(line) : [h("br"), ...spans(line)]));
}

function spans(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(inline)) {
    if (found.index > from) parts.push(text.slice(from, found.index));
    if (found[1]) parts.push(h("code", null, found[2]));
    else if (found[3]) parts.push(h("strong", null, found[3]));
    else parts.push(h("em", null, found[4]));
    from = found.index + found[0].length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

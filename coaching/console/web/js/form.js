// Forms from JSON Schemas. A field reports its value after every change; undefined means that it
// is left out. Input is never dropped: a text in the place of a number stays a text, and the
// console reports the problem.

import { button, fill, h, icon, iconButton, uid } from "./dom.js";
import { isRaw, parse, pretty, readNumber } from "../json.js";
import { broken, place, slot } from "./problems.js";
import { blank, holds, initial, limits, same, typeName } from "./schema.js";

const fewOptions = 4; // up to this many short options are shown side by side
const shortOption = 16; // characters

// field builds the row of one value: label, control, help and the place of
// its problem. Options: name, path, value, required, onchange(value), and
// remove() if it can be taken out.
export function field(form, { name, path, value, required = true, onchange, remove }) {
  const ids = { control: uid("f"), help: uid("h"), problem: uid("p") };
  const usable = holds(form, value) ? form : { ...form, kind: "any" };
  const row = h("div", { class: `field field-${usable.kind}`, dataset: { path: place(path), name, required: String(required) } });
  const changed = (next) => {
    row.dataset.unset = String(next === undefined || next === null);
    onchange(next);
  };
  row.dataset.unset = String(value === undefined || value === null);
  const label = form.title || name;
  const context = { ids, path, row, label, required, onchange: changed };
  const control = (editors[usable.kind] ?? editors.any)(usable, value, context);
  const grouped = control.dataset?.group === "true";
  const caption = h(grouped ? "div" : "label", {
    class: "field-label", id: `${ids.control}-label`, for: grouped ? null : ids.control,
  }, h("span", { class: "field-name" }, label), h("span", { class: "field-type" }, typeName(usable), required ? null : ", optional"));
  if (grouped) control.setAttribute("aria-labelledby", `${ids.control}-label`);
  const help = [form.about, limits(form.schema)].filter(Boolean).join(" · ");
  fill(row,
    h("div", { class: "field-head" }, caption,
      remove ? iconButton("close", `Leave ${label} out`, remove, { class: "icon-button small" }) : null),
    help ? h("p", { class: "field-help", id: ids.help }, help) : h("span", { id: ids.help, hidden: true }),
    control,
    slot(ids.problem));
  return row;
}

// described returns the attributes of a field's control.
function described({ ids, required }) {
  return { id: ids.control, "aria-describedby": `${ids.help} ${ids.problem}`, "aria-required": required ? "true" : null };
}

const editors = {
  string(form, value, context) {
    const oninput = (event) => context.onchange(event.target.value === "" ? undefined : event.target.value);
    if (!form.long) return h("input", { ...described(context), type: "text", autocomplete: "off", value: value ?? "", oninput });
    return h("textarea", { ...described(context), rows: "2", value: value ?? "", oninput });
  },

  integer: number,
  number,

  boolean(_form, value, context) {
    return radios([true, false], value, context, (v) => (v ? "yes" : "no"));
  },

  enum(form, value, context) {
    const text = (option) => (typeof option === "string" ? option : JSON.stringify(option));
    const few = form.options.length <= fewOptions && form.options.every((o) => text(o).length <= shortOption);
    if (few) return radios(form.options, value, context, text);
    const chosen = form.options.findIndex((option) => same(option, value));
    const select = h("select", {
      ...described(context),
      onchange: () => context.onchange(select.value === "" ? undefined : form.options[Number(select.value)]),
    }, h("option", { value: "" }, "Choose…"), form.options.map((option, i) => h("option", { value: String(i) }, text(option))));
    select.value = chosen < 0 ? "" : String(chosen);
    return select;
  },

  const(form) {
    return h("output", { class: "field-fixed" }, typeof form.value === "string" ? form.value : JSON.stringify(form.value));
  },

  array: list,
  object: fields,
  any: anything,
};

function number(form, value, context) {
  const shown = isRaw(value) ? value.rawJSON : value ?? "";
  return h("input", {
    ...described(context), type: "text", class: "number", autocomplete: "off",
    inputmode: form.kind === "integer" ? "numeric" : "decimal",
    value: String(shown),
    oninput(event) {
      const text = event.target.value;
      context.onchange(text.trim() === "" ? undefined : readNumber(text) ?? text);
    },
  });
}

function radios(options, value, context, text) {
  const name = uid("r");
  return h("div", {
    class: "segments", role: "radiogroup", dataset: { group: "true" },
    "aria-describedby": `${context.ids.help} ${context.ids.problem}`,
  }, options.map((option) => h("label", { class: "segment" },
    h("input", {
      type: "radio", name, checked: value !== undefined && same(option, value), onchange: () => context.onchange(option),
    }), h("span", null, text(option)))));
}

function list(form, value, context) {
  const items = value ?? [];
  const box = h("div", { class: "list", role: "group", dataset: { group: "true" } });
  const changed = () => context.onchange(items);
  const draw = (focus) => {
    const rows = items.map((item, i) => h("div", { class: "list-item" },
      field(form.items, {
        name: `${context.label} ${i + 1}`, path: [...context.path, i], value: item,
        // A list cannot have holes, so an emptied item is blank.
        onchange: (next) => { items[i] = next ?? blank(form.items); changed(); },
      }),
      h("div", { class: "list-tools" },
        iconButton("up", "Move up", () => move(i, i - 1), { disabled: i === 0, class: "icon-button small" }),
        iconButton("down", "Move down", () => move(i, i + 1), { disabled: i === items.length - 1, class: "icon-button small" }),
        iconButton("close", "Remove", () => { items.splice(i, 1); changed(); draw(Math.min(i, items.length - 1)); }, { class: "icon-button small" }))));
    const add = button({
      class: "chip add", disabled: items.length >= form.max,
      onclick: () => { items.push(blank(form.items)); changed(); draw(items.length - 1); },
    }, icon("add"), items.length === 0 ? "Add an item" : "Add another");
    fill(box, rows, add);
    if (focus === undefined) return;
    (rows[focus]?.querySelector("input, textarea, select") ?? add).focus();
  };
  const move = (from, to) => {
    [items[from], items[to]] = [items[to], items[from]];
    changed();
    draw(to);
  };
  draw();
  return box;
}

// fields shows the members of an object. Optional members are chips until they are added.
function fields(form, value, context) {
  const members = value ?? initial(form);
  const nested = context.path.length > 3; // below ["tool_calls", 0, "arguments"]
  const box = h("div", { class: nested ? "group nested" : "group", role: "group", dataset: { group: "true" } });
  const changed = () => context.onchange(members);
  const draw = (focus) => {
    const present = form.fields.filter((f) => f.required || Object.hasOwn(members, f.name));
    const absent = form.fields.filter((f) => !present.includes(f));
    // Members that the schema does not list are shown too, so they can be removed.
    for (const name of Object.keys(members)) {
      if (!form.fields.some((f) => f.name === name)) present.push({ name, kind: "any", required: false });
    }
    const rows = present.map((f) => field(f, {
      name: f.name, path: [...context.path, f.name], value: members[f.name], required: f.required,
      onchange(next) {
        // An added optional field that is still empty is no part of the value.
        if (next === undefined) delete members[f.name];
        else members[f.name] = next;
        changed();
      },
      remove: f.required ? null : () => { delete members[f.name]; changed(); draw(); },
    }));
    const add = absent.map((f) => button({
      class: "chip add", title: f.about || null,
      onclick: () => {
        members[f.name] = blank(f);
        draw(f.name);
        changed();
      },
    }, icon("add"), f.name));
    fill(box, rows, rows.length + add.length === 0 ? h("p", { class: "muted" }, "Nothing to fill in.") : null, add.length > 0 ? h("div", { class: "chips" }, h("span", { class: "muted" }, "Optional:"), add) : null);
    if (focus === undefined) return;
    const row = rows[present.findIndex((f) => f.name === focus)];
    row?.querySelector("input, textarea, select, button:not(.small)")?.focus();
  };
  draw();
  return box;
}

// anything edits a value as JSON. Where any value is valid, plain words are a string without
// quotes.
function anything(form, value, context) {
  const area = h("textarea", {
    ...described(context), class: "code", rows: "2", spellcheck: "false",
    placeholder: form.expects === "object" ? "{ }" : "text, or JSON",
    value: written(value, form),
  });
  const note = () => {
    const { value: next, error } = understood(area.value, form);
    broken(context.row, error);
    return next;
  };
  area.addEventListener("input", () => context.onchange(note()));
  // After the field is in its row: the text of a draft may be invalid.
  queueMicrotask(() => { if (value !== undefined) note(); });
  return area;
}

function written(value, form) {
  if (value === undefined) return "";
  if (typeof value === "string" && understood(value, form).value === value) return value;
  return pretty(value);
}

function understood(text, form) {
  if (text.trim() === "") return { value: undefined, error: "" };
  try {
    return { value: parse(text), error: "" };
  } catch (error) {
    const plain = form.expects !== "object" && !/^\s*["{[]/.test(text);
    return { value: text, error: plain ? "" : `This is not JSON yet: ${error.message}.` };
  }
}

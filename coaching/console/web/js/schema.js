// A JSON Schema becomes the description of a form. A schema that a form cannot express has the
// kind "any", which is edited as JSON. The console checks every value against the whole schema.

import { isObject, isRaw } from "../json.js";

const deepest = 12; // levels of $ref and nesting that a form follows

// read returns what a form needs to know of a schema:
// {kind, title, about, ...}, where kind is
//   string (long), integer, number, boolean, enum (options), const (value), array (items),
//   object (fields), any.
// Of alternatives a form shows the only one beside null.
export function read(schema, root = schema, depth = 0) {
  const whole = resolve(schema, root, depth);
  if (!isObject(whole) || depth > deepest) return { kind: "any" };
  const common = { title: text(whole.title), about: text(whole.description), schema: whole };
  return { ...common, ...shape(whole, root, depth) };
}

function text(value) {
  return typeof value === "string" ? value : "";
}

// resolve follows references inside the document and merges allOf.
function resolve(schema, root, depth) {
  let current = schema;
  for (let i = 0; isObject(current) && typeof current.$ref === "string"; i++) {
    const { $ref, ...beside } = current;
    const target = pointer(root, $ref);
    if (!isObject(target) || i > deepest) return null;
    current = { ...target, ...beside };
  }
  if (isObject(current) && Array.isArray(current.allOf) && depth <= deepest) {
    const { allOf, ...rest } = current;
    return [...allOf.map((part) => resolve(part, root, depth + 1)), rest].reduce(merge, {});
  }
  return current;
}

function merge(one, other) {
  if (!isObject(one) || !isObject(other)) return null;
  const both = { ...one, ...other };
  if (one.properties && other.properties) both.properties = { ...one.properties, ...other.properties };
  if (one.required && other.required) both.required = [...new Set([...one.required, ...other.required])];
  return both;
}

function pointer(root, ref) {
  if (!ref.startsWith("#")) return null;
  let at = root;
  for (const part of ref.slice(1).split("/").slice(1)) {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (!Object.hasOwn(at ?? {}, name)) return null;
    at = at[name];
  }
  return at;
}

function shape(schema, root, depth) {
  if (Object.hasOwn(schema, "const")) return { kind: "const", value: schema.const };
  if (Array.isArray(schema.enum)) return schema.enum.length === 1
    ? { kind: "const", value: schema.enum[0] }
    : { kind: "enum", options: schema.enum };
  const parts = schema.anyOf ?? schema.oneOf ?? (Array.isArray(schema.type) ? schema.type.map((type) => ({ type })) : null);
  if (!Array.isArray(parts)) return typed(schema, root, depth);
  const { anyOf, oneOf, ...beside } = schema;
  const [only, ...others] = parts.filter((part) => part?.type !== "null");
  if (!isObject(only) || others.length > 0) return { kind: "any" };
  return { ...read({ ...beside, ...only }, root, depth + 1), nullable: parts.length > 1 };
}

function typed(schema, root, depth) {
  switch (schema.type ?? (isObject(schema.properties) ? "object" : isObject(schema.items) ? "array" : "")) {
    case "string": return { kind: "string", long: schema.format === undefined && !(schema.maxLength <= 120) };
    case "integer": return { kind: "integer" };
    case "number": return { kind: "number" };
    case "boolean": return { kind: "boolean" };
    case "null": return { kind: "const", value: null };
    case "array": return list(schema, root, depth);
    case "object": return object(schema, root, depth);
    default: return { kind: "any" };
  }
}

function list(schema, root, depth) {
  if (Array.isArray(schema.prefixItems) || Array.isArray(schema.items)) return { kind: "any" };
  return { kind: "array", items: read(schema.items ?? {}, root, depth + 1), min: schema.minItems ?? 0, max: schema.maxItems ?? Infinity };
}

function object(schema, root, depth) {
  if (!isObject(schema.properties)) {
    return schema.additionalProperties === false ? { kind: "object", fields: [] } : { kind: "any", expects: "object" };
  }
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const fields = Object.entries(schema.properties).map(([name, part]) => {
    const form = read(part, root, depth + 1);
    if (required.has(name) && form.nullable) form.kind = "any"; // an empty control can't say null
    return { name, required: required.has(name), ...form };
  });
  return { kind: "object", fields };
}

const simple = new Set(["string", "integer", "number", "boolean", "enum"]);

// holds reports whether the control of a form can show a value without loss. Other values are
// edited as JSON. Fields inside lists and objects check their own values.
export function holds(form, value) {
  if (value === undefined) return true;
  if (value === null && simple.has(form.kind)) return true; // not filled in yet
  switch (form.kind) {
    case "string": return typeof value === "string";
    // A person may have typed a text in the place of a number.
    case "integer":
    case "number": return typeof value === "number" || typeof value === "string" || isRaw(value);
    case "boolean": return typeof value === "boolean";
    case "enum": return form.options.some((option) => same(option, value));
    case "const": return same(form.value, value);
    case "array": return Array.isArray(value);
    case "object": return isObject(value);
    default: return true;
  }
}

// same compares JSON values as they are written.
export function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

// initial is the value that a form starts with. It has only values that leave no choice.
export function initial(form) {
  switch (form.kind) {
    case "const": return form.value;
    case "object": {
      const value = {};
      for (const field of form.fields) {
        const start = field.required ? initial(field) : undefined;
        if (start !== undefined) value[field.name] = start;
      }
      return value;
    }
    case "array": {
      const start = initial(form.items);
      return Array.from({ length: Math.min(form.min, 20) }, () => start ?? blank(form.items));
    }
    default: return undefined;
  }
}

// blank is the value of a new item of a list, or of an added member. JSON starts empty.
export function blank(form) {
  return initial(form) ?? (form.kind === "any" ? undefined : null);
}

const names = {
  string: "text", integer: "whole number", number: "number", boolean: "yes or no",
  enum: "one of a list", const: "fixed", object: "group", any: "JSON",
};

// typeName describes the type of a value.
export function typeName(form) {
  if (form.kind === "array") return form.items.kind === "any" ? "list" : `list of ${plural(typeName(form.items))}`;
  return names[form.kind];
}

function plural(name) {
  const known = { text: "texts", "whole number": "whole numbers", number: "numbers", group: "groups" };
  return known[name] ?? name;
}

// limits describes the other constraints of a schema.
export function limits(schema) {
  if (!isObject(schema)) return "";
  const parts = [];
  const from = schema.minimum ?? schema.exclusiveMinimum;
  const to = schema.maximum ?? schema.exclusiveMaximum;
  if (from !== undefined && to !== undefined) parts.push(`${from} to ${to}`);
  else if (from !== undefined) parts.push(`from ${from}`);
  else if (to !== undefined) parts.push(`up to ${to}`);
  if (schema.minLength > 0 && schema.maxLength !== undefined) parts.push(`${schema.minLength} to ${schema.maxLength} characters`);
  else if (schema.maxLength !== undefined) parts.push(`up to ${schema.maxLength} characters`);
  if (typeof schema.format === "string") parts.push(schema.format);
  if (typeof schema.pattern === "string") parts.push(`matches ${schema.pattern}`);
  return parts.join(", ");
}

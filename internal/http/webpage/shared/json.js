// JSON that keeps the spelling of numbers. 1.0, and integers too large for a float, survive an
// edit of other values.

const exact = typeof JSON.rawJSON === "function";

// parse reads JSON; a number that JavaScript would write otherwise stays raw.
export function parse(text) {
  if (!exact) return JSON.parse(text);
  return JSON.parse(text, (_key, value, context) => {
    const source = context?.source;
    return typeof value === "number" && source !== undefined && String(value) !== source ? JSON.rawJSON(source) : value;
  });
}

// isRaw reports whether a value is a number that parse kept as it was written.
export function isRaw(value) {
  return exact && JSON.isRawJSON(value);
}

// clone copies a JSON value; undefined stays undefined.
export function clone(value) {
  return value === undefined ? undefined : parse(JSON.stringify(value));
}

// toNumber is a number of parse as JavaScript's, to count with it; undefined when it is none.
export function toNumber(value) {
  if (isRaw(value)) return Number(value.rawJSON);
  return typeof value === "number" ? value : undefined;
}

// pretty writes JSON for people.
export function pretty(value) {
  return JSON.stringify(value, null, 2);
}

// isObject reports whether a value is a JSON object.
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isRaw(value);
}

// short writes a value in one line for a summary, cut after max characters.
export function short(value, max = 80) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > max ? `${line.slice(0, max - 1)}…` : line;
}

// readNumber reads what a person typed as a number, raw where a float would
// change it; undefined when it is not one.
export function readNumber(text) {
  try {
    const value = parse(text.trim());
    return typeof value === "number" || isRaw(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

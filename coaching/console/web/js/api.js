// The console's HTTP interface.

import { parse } from "../json.js";

// APIError is a refused or failed call. Status 0 means that the console could
// not be reached at all.
export class APIError extends Error {
  constructor(status, message, problems = []) {
    super(message);
    this.status = status;
    this.problems = problems;
  }

  get offline() {
    return this.status === 0;
  }
}

async function call(method, path, body, signal) {
  const init = { method, signal, headers: { Accept: "application/json" }, credentials: "same-origin" };
  if (method !== "GET") init.headers["X-Agentd-Console"] = "1";
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  let response;
  let text;
  try {
    response = await fetch(path, init);
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new APIError(0, "The console cannot be reached.");
  }
  let value = null;
  if (text !== "") {
    try {
      value = parse(text);
    } catch {
      throw new APIError(response.status, `The console's answer (${response.status}) could not be read.`);
    }
  }
  if (!response.ok) throw refusal(response.status, value);
  return value;
}

function refusal(status, value) {
  const detail = value?.detail;
  if (Array.isArray(detail)) {
    return new APIError(status, detail.map((p) => p.msg).join(" "), detail);
  }
  return new APIError(status, typeof detail === "string" ? detail : `The console answered ${status}.`);
}

const at = (id, what = "") => `./api/tasks/${encodeURIComponent(id)}${what}`;

// filled copies shared data into the points: tools, robots and the inputs of steps. The console
// sends each of them once.
function filled(detail) {
  const inputs = new Map((detail.coaching?.trajectory ?? []).map((step) => [step.id, step.input]));
  for (const point of detail.points) {
    Object.assign(point, detail.toolsets[point.toolset]);
    point.input ??= inputs.get(point.step_id) ?? null;
  }
  return detail;
}

export const api = {
  me: () => call("GET", "./api/me"),
  login: (token) => call("POST", "./api/login", { token }),
  logout: () => call("POST", "./api/logout"),
  tasks: (state) => call("GET", `./api/tasks?state=${state}`),
  task: async (id) => filled(await call("GET", at(id))),
  claim: (id, person, claim) => call("POST", at(id, "/claim"), claim ? { person, claim } : { person }),
  release: (id, claim) => call("POST", at(id, "/release"), { claim }),
  check: (id, content, signal) => call("POST", at(id, "/check"), content, signal),
  saveDraft: (id, claim, draft) => call("PUT", at(id, "/draft"), { claim, draft }),
  answer: (id, body) => call("POST", at(id, "/answer"), body),
  candidates: (id, point, n) => call("POST", at(id, "/candidates"), { point, n }),
};

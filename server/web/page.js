// The playground: one request to this server, its candidates, and the request as code to copy.
// All text becomes text nodes, so text of a model is never HTML.

import { parse, pretty, toNumber } from "./json.js";
import { presets } from "./presets.js";

const $ = (id) => document.getElementById(id);
const tokenKey = "agentd.token";
const path = (name) => new URL(name, new URL(".", location.href)).href; // also below a path of a proxy
const every = 5000; // ms between two looks at the server's state

// h builds an element with children, which are elements or texts.
function h(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

// text builds an element for a text in any script.
function text(tag, className, content) {
  const element = h(tag, className, content);
  element.dir = "auto";
  return element;
}

// kept is the token of this tab, where the browser allows storage; else it is forgotten with the page.
const kept = {
  get() {
    try {
      return sessionStorage.getItem(tokenKey) ?? "";
    } catch {
      return "";
    }
  },
  set(token) {
    try {
      sessionStorage.setItem(tokenKey, token);
    } catch {
      // The field has it.
    }
  },
};

// ask sends a request with the token, if there is one.
async function ask(name, options = {}) {
  const token = $("token").value || kept.get();
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  try {
    return await fetch(path(name), { ...options, headers, cache: "no-store" });
  } catch {
    throw new Error("The server can't be reached.");
  }
}

// metric reads a sample of /metrics: its labels and its value, added over all samples of the name.
function metric(text, name) {
  let labels = {};
  let sum = null;
  for (const line of text.split("\n")) {
    const match = line.match(/^(\w+)(?:\{(.*)\})? (\S+)$/);
    if (match?.[1] !== name) continue;
    sum += Number(match[3]);
    labels = Object.fromEntries([...(match[2] ?? "").matchAll(/(\w+)="([^"]*)"/g)].map((m) => [m[1], m[2]]));
  }
  return { labels, sum };
}

function showStatus(state, facts = []) {
  const rows = [["Server", h("span", `state ${state === "ready" ? "ready" : state === "not reachable" ? "gone" : ""}`, state)], ...facts];
  $("status").replaceChildren(...rows.map(([name, value]) => h("div", "", h("dt", "", name), h("dd", "", value))));
}

let looking = false;

// look shows the server's state, and what it serves as far as the token allows.
async function look() {
  if (looking) return; // the last look still waits
  looking = true;
  try {
    const health = await (await ask("health")).json();
    const state = health.status ?? health.error?.message ?? "failed";
    const info = await ask("v1/info");
    $("token-label").hidden = info.status !== 401 && !$("token").value;
    if (!info.ok) return showStatus(state);
    const samples = await (await ask("metrics")).text();
    const { labels } = metric(samples, "agentd_model_info");
    const facts = [
      labels.model && ["Model", labels.model],
      labels.device && ["On", `${labels.device}, prompts as ${labels.format}`],
      ["Running", String(metric(samples, "agentd_num_requests_running").sum ?? 0)],
      ["Waiting", String(metric(samples, "agentd_num_requests_waiting").sum ?? 0)],
      ["Version", metric(samples, "agentd_build_info").labels.version],
    ];
    showStatus(state, facts.filter((f) => f?.[1]));
  } catch {
    showStatus("not reachable");
  } finally {
    looking = false;
  }
}

// body is the request of the form as JSON. The tools stay as they were written. It throws what is wrong with the form.
function body(indent) {
  const tools = $("tools").value.trim() || "[]";
  try {
    JSON.parse(tools);
  } catch (error) {
    throw new Error(`Tools are not JSON: ${error.message}`);
  }
  const mode = $("mode").value;
  const robots = $("robots").value.split(",").map((r) => r.trim()).filter(Boolean);
  return JSON.stringify({
    request_id: `page-${Date.now()}`,
    inputs: [{
      tools: null, // the first null of the text
      id: 1,
      instruction: { type: "user", content: $("instruction").value },
      attributes: robots.length ? { known_robots: robots } : {},
      num_outputs: Number($("count").value),
      extra_keys: {
        inference_mode: mode !== "sampled",
        ...(mode === "distinct" ? { candidates: { distinct: true } } : { return: ["logprobs"] }),
      },
    }],
  }, null, indent).replace("null", () => tools);
}

// probability of a candidate: that of its decision among distinct ones, else that of its tokens.
function probability(candidate) {
  const made = candidate.internal_steps.at(-1)?.input_elements?.generation;
  if (made?.candidate) return toNumber(made.candidate.probability) ?? null;
  const logprob = toNumber(made?.sum_logprob);
  return logprob === undefined ? null : Math.exp(logprob);
}

function percent(p) {
  return p >= 0.001 ? `${(100 * p).toFixed(1)} %` : "below 0.1 %";
}

function callView(call) {
  const list = h("dl", "");
  for (const [name, value] of Object.entries(call.arguments)) {
    list.append(text("dt", "", name), text("dd", "", typeof value === "string" ? value : JSON.stringify(value)));
  }
  return h("div", "call", text("b", "", call.target_robot_name), ": ", text("span", "", call.name), list);
}

function candidateView(candidate, i) {
  const p = probability(candidate);
  const view = h("li", candidate.status === "completed" ? "" : "failed",
    h("header", "", h("span", "", `Candidate ${i + 1}`), p === null ? "" : h("span", "", percent(p))));
  if (p !== null) {
    const fill = h("i", "");
    fill.style.width = `${100 * p}%`;
    view.append(h("div", "bar", fill));
  }
  if (candidate.error) view.append(h("b", "", candidate.error.code), text("p", "", candidate.error.message));
  for (const call of candidate.output?.tool_calls ?? []) view.append(callView(call));
  if (candidate.output?.say) view.append(text("p", "", candidate.output.say));
  return view;
}

// clear takes the last answer away, and says what is there instead.
function clear(sentence) {
  $("summary").textContent = sentence;
  $("candidates").replaceChildren();
  for (const id of ["prompt", "raw"]) {
    $(id).hidden = true;
    $(id).querySelector("pre").textContent = "";
  }
}

function showAnswer(candidates, ms) {
  const made = candidates[0].internal_steps.at(-1);
  const tokens = made?.input_elements?.generation?.prompt_tokens;
  $("summary").textContent = `${candidates.length} candidates of one prompt${tokens ? ` with ${tokens} tokens` : ""}, in ${Math.round(ms)} ms.`;
  $("candidates").replaceChildren(...candidates.map(candidateView));
  for (const [id, content] of [["prompt", made?.full_prompt], ["raw", pretty(candidates)]]) {
    $(id).hidden = !content;
    $(id).querySelector("pre").textContent = content ?? "";
  }
}

// problemOf is the sentence for an answer that is an error.
async function problemOf(answer) {
  const error = await answer.json().catch(() => null);
  if (answer.status === 401) return "This server asks for a token. Enter it above Decide.";
  if (Array.isArray(error?.detail)) return error.detail.map((d) => `${d.loc?.slice(1).join(".")}: ${d.msg}`).join("\n");
  return error?.error?.message ?? error?.detail ?? `The server answered ${answer.status}.`;
}

async function decide(event) {
  event.preventDefault();
  const go = $("request").querySelector(".main");
  go.disabled = true;
  $("problem").textContent = "";
  const began = performance.now();
  const wait = () => clear(`Waiting for the answer… ${Math.round((performance.now() - began) / 1000)} s`);
  wait();
  const timer = setInterval(wait, 1000);
  try {
    const answer = await ask("v1/responses", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: body(),
    });
    if (answer.status === 401) $("token-label").hidden = false;
    if (!answer.ok) throw new Error(await problemOf(answer));
    const candidates = await answer.text().then(parse).catch(() => {
      throw new Error("The answer could not be read: it is no JSON, or it was cut off.");
    });
    clearInterval(timer);
    showAnswer(candidates, performance.now() - began);
    if ($("token").value) kept.set($("token").value);
  } catch (error) {
    clear("There is no answer.");
    $("problem").textContent = error.message;
  } finally {
    clearInterval(timer);
    go.disabled = false;
  }
}

// Code to copy.

const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function curl() {
  const auth = $("token-label").hidden ? "" : ` -H "Authorization: Bearer $TOKEN"`;
  return `curl -s ${quote(path("v1/responses"))} -H 'Content-Type: application/json'${auth} -d ${quote(body(1))}\n`;
}

function python() {
  const auth = $("token-label").hidden ? "" : `\nrequest.add_header("Authorization", "Bearer " + os.environ["TOKEN"])`;
  return `import json, os, urllib.request

body = r"""${body(1)}"""
request = urllib.request.Request(${JSON.stringify(path("v1/responses"))}, body.encode(), {"Content-Type": "application/json"})${auth}
for candidate in json.load(urllib.request.urlopen(request)):
    print(candidate["status"], candidate.get("output") or candidate.get("error"))
`;
}

async function copy(event) {
  const button = event.currentTarget;
  $("problem").textContent = "";
  $("code").hidden = true;
  let code;
  try {
    code = button.dataset.copy === "curl" ? curl() : python();
  } catch (error) {
    $("problem").textContent = error.message;
    return;
  }
  try {
    await navigator.clipboard.writeText(code); // undefined without TLS, but on this machine
  } catch {
    $("problem").textContent = "This browser does not let the page copy. Copy by hand:";
    $("code").value = code;
    $("code").hidden = false;
    $("code").select();
    return;
  }
  const label = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = label; }, 1500);
}

function choose(preset, button) {
  $("instruction").value = preset.instruction;
  $("tools").value = JSON.stringify(preset.tools, null, 1);
  $("robots").value = preset.robots.join(", ");
  $("mode").value = preset.mode;
  for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
}

const group = document.querySelector(".presets");
for (const preset of presets) {
  const button = h("button", "", preset.name);
  button.type = "button";
  button.addEventListener("click", () => choose(preset, button));
  group.append(button);
}
choose(presets[0], group.firstChild);
$("request").addEventListener("submit", decide);
$("token").addEventListener("change", look);
for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", copy);
$("console").href = `http://${location.hostname}:8890/`; // the default of agentd console
look();
setInterval(() => { if (!document.hidden) look(); }, every);

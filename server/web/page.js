// The playground: one request to this server, its candidates, and the request as code to copy.
// All text becomes text nodes, so text of a model is never HTML.

import { presets } from "./presets.js";

const $ = (id) => document.getElementById(id);
const tokenKey = "agentd.token";
const every = 5000; // ms between two looks at the server's state

// h builds an element with children, which are elements or texts.
function h(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

// ask sends a request with the token, if there is one.
function ask(path, options = {}) {
  const token = $("token").value || sessionStorage.getItem(tokenKey);
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  return fetch(path, { ...options, headers, cache: "no-store" });
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
    const health = await (await ask("/health")).json();
    const state = health.status ?? health.error?.message ?? "failed";
    const info = await ask("/v1/info");
    $("token-label").hidden = info.status !== 401 && !$("token").value;
    if (!info.ok) return showStatus(state);
    const text = await (await ask("/metrics")).text();
    const { labels } = metric(text, "agentd_model_info");
    const facts = [
      labels.model && ["Model", labels.model],
      labels.device && ["On", `${labels.device}, prompts as ${labels.format}`],
      ["Running", String(metric(text, "agentd_num_requests_running").sum ?? 0)],
      ["Waiting", String(metric(text, "agentd_num_requests_waiting").sum ?? 0)],
      ["Version", metric(text, "agentd_build_info").labels.version],
    ];
    showStatus(state, facts.filter((f) => f?.[1]));
  } catch {
    showStatus("not reachable");
  } finally {
    looking = false;
  }
}

// body is the request of the form. It throws what is wrong with the form.
function body() {
  let tools;
  try {
    tools = JSON.parse($("tools").value || "[]");
  } catch (error) {
    throw new Error(`Tools are not JSON: ${error.message}`);
  }
  const mode = $("mode").value;
  const robots = $("robots").value.split(",").map((r) => r.trim()).filter(Boolean);
  return {
    request_id: `page-${Date.now()}`,
    inputs: [{
      id: 1,
      instruction: { type: "user", content: $("instruction").value },
      tools,
      attributes: robots.length ? { known_robots: robots } : {},
      num_outputs: Number($("count").value),
      extra_keys: {
        inference_mode: mode !== "sampled",
        ...(mode === "distinct" ? { candidates: { distinct: true } } : { return: ["logprobs"] }),
      },
    }],
  };
}

// probability of a candidate: that of its decision among distinct ones, else that of its tokens.
function probability(candidate) {
  const made = candidate.internal_steps.at(-1)?.input_elements?.generation;
  if (made?.candidate) return made.candidate.probability;
  return typeof made?.sum_logprob === "number" ? Math.exp(made.sum_logprob) : null;
}

function percent(p) {
  return p >= 0.001 ? `${(100 * p).toFixed(1)} %` : "below 0.1 %";
}

function callView(call) {
  const list = h("dl", "");
  for (const [name, value] of Object.entries(call.arguments)) {
    list.append(h("dt", "", name), h("dd", "", typeof value === "string" ? value : JSON.stringify(value)));
  }
  return h("div", "call", h("b", "", call.target_robot_name), `: ${call.name}`, list);
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
  if (candidate.error) view.append(h("b", "", candidate.error.code), h("p", "", candidate.error.message));
  for (const call of candidate.output?.tool_calls ?? []) view.append(callView(call));
  if (candidate.output?.say) view.append(h("p", "", candidate.output.say));
  return view;
}

function showAnswer(candidates, ms) {
  const made = candidates[0].internal_steps.at(-1);
  const tokens = made?.input_elements?.generation?.prompt_tokens;
  $("summary").textContent = `${candidates.length} candidates of one prompt${tokens ? ` with ${tokens} tokens` : ""}, in ${Math.round(ms)} ms.`;
  $("candidates").replaceChildren(...candidates.map(candidateView));
  for (const [id, text] of [["prompt", made?.full_prompt], ["raw", JSON.stringify(candidates, null, 2)]]) {
    $(id).hidden = !text;
    $(id).querySelector("pre").textContent = text ?? "";
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
  try {
    const began = performance.now();
    const answer = await ask("/v1/responses", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body()),
    });
    if (answer.status === 401) $("token-label").hidden = false;
    if (!answer.ok) throw new Error(await problemOf(answer));
    showAnswer(await answer.json(), performance.now() - began);
    if ($("token").value) sessionStorage.setItem(tokenKey, $("token").value);
  } catch (error) {
    $("problem").textContent = error.message;
  } finally {
    go.disabled = false;
  }
}

// Code to copy.

const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function curl() {
  const auth = $("token-label").hidden ? "" : ` -H "Authorization: Bearer $TOKEN"`;
  return `curl -s ${location.origin}/v1/responses -H 'Content-Type: application/json'${auth} -d ${quote(JSON.stringify(body(), null, 1))}\n`;
}

function python() {
  const auth = $("token-label").hidden ? "" : `\nrequest.add_header("Authorization", "Bearer " + os.environ["TOKEN"])`;
  return `import json, os, urllib.request

body = r"""${JSON.stringify(body(), null, 1)}"""
request = urllib.request.Request("${location.origin}/v1/responses", body.encode(), {"Content-Type": "application/json"})${auth}
for candidate in json.load(urllib.request.urlopen(request)):
    print(candidate["status"], candidate.get("output") or candidate.get("error"))
`;
}

async function copy(event) {
  const button = event.currentTarget;
  try {
    await navigator.clipboard.writeText(button.dataset.copy === "curl" ? curl() : python());
    $("problem").textContent = "";
    const text = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = text; }, 1500);
  } catch (error) {
    $("problem").textContent = `Not copied: ${error.message}`;
  }
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

// The page: a bar, the list of tasks, the task that is open.

import { api } from "./api.js";
import { announce, button, fill, h, icon } from "./dom.js";
import { askName } from "./dialog.js";
import { coalesce, follow } from "./live.js";
import { storage } from "./storage.js";
import { createQueue } from "./queue.js";
import { Task } from "./task.js";
import { count } from "./words.js";
import { connectGuide, loginView } from "./welcome.js";

const loadEvery = 20000; // ms, for ages and claims that expired

const state = { me: null, list: "open", selected: null, tasks: { open: [], done: [] }, loaded: { open: false, done: false }, skew: 0, offline: false };
const queue = createQueue();
let view = null; // the open task
let unfollow = null;

const app = document.getElementById("app");
const live = h("span", { class: "live", role: "status" });
const who = h("span");
const whoButton = button({ class: "bar-button", onclick: () => askName().then(draw), title: "Change your name" }, icon("person"), who);
const logout = button({ class: "bar-button", hidden: true, onclick: () => api.logout().catch(() => {}).then(start) }, "Log out");
const bar = h("header", { class: "bar" },
  h("a", { class: "brand", href: "#/" }, h("img", { src: "./assets/icon.svg", alt: "", width: "26", height: "26" }), h("span", null, "agentd console")),
  live, h("div", { class: "bar-tools" }, whoButton,
    logout));
const offline = h("div", { class: "offline", role: "alert", hidden: true });
const openTab = h("a", { href: "#/", class: "list-tab" });
const doneTab = h("a", { href: "#/done", class: "list-tab" }, "Done");
const listNote = h("div", { class: "list-note" });
const side = h("nav", { class: "side", "aria-label": "Tasks" }, h("div", { class: "list-tabs" }, openTab, doneTab), queue.element, listNote);
const main = h("main", { class: "main", id: "main", tabindex: "-1" });

function draw() {
  document.body.dataset.view = view ? "task" : "list";
  const tasks = state.tasks[state.list];
  const now = Date.now() + state.skew;
  queue.update(tasks, { now, selected: state.selected, me: storage.name(), done: state.list === "done" });
  const waiting = state.tasks.open.length;
  fill(openTab, "Waiting", waiting > 0 ? h("span", { class: "count" }, String(waiting)) : null);
  for (const [tab, list] of [[openTab, "open"], [doneTab, "done"]]) {
    tab.ariaCurrent = state.list === list ? "true" : null;
  }
  const note = tasks.length === 0 && state.loaded[state.list] ? (state.list === "open" ? "Nothing waits. New tasks appear here by themselves." : "Nothing is done yet.") : "";
  if (listNote.textContent !== note) listNote.textContent = note;
  document.title = waiting > 0 ? `(${waiting}) agentd console` : "agentd console";
  who.textContent = storage.name() || "Your name";
  if (view) return;
  const kind = state.tasks.open.length > 0 ? "pick" : state.loaded.open ? "connect" : "loading";
  if (main.dataset.welcome === kind) return;
  main.dataset.welcome = kind;
  if (kind === "loading") fill(main);
  else fill(main, connectGuide(kind === "pick", next));
}

// load fetches the visible lists, once for many changes.
const load = coalesce(async () => {
  try {
    const lists = state.list === "done" ? ["open", "done"] : ["open"];
    for (const list of lists) {
      const { now, tasks } = await api.tasks(list);
      state.skew = Date.parse(now) - Date.now();
      if (list === "open") {
        tellNews(tasks);
        storage.forget(tasks);
      }
      state.tasks[list] = tasks;
      state.loaded[list] = true;
    }
    setOffline(false);
  } catch (error) {
    if (error.status === 401) start();
    else setOffline(error.offline);
    return;
  }
  draw();
  if (!view) return;
  const mine = state.tasks.open.find((t) => t.id === view.id);
  if (mine) view.update(mine);
  else view.left();
});

function tellNews(tasks) {
  if (!state.loaded.open) return;
  const known = new Set(state.tasks.open.map((t) => t.id));
  const fresh = tasks.filter((t) => !known.has(t.id));
  if (fresh.length > 0) announce(fresh.length === 1 ? `New task: ${fresh[0].stage || fresh[0].payload_type}` : count(fresh.length, "new task"));
}

function setOffline(is) {
  if (state.offline === is) return;
  state.offline = is;
  offline.hidden = !is;
  fill(offline, is ? [icon("warn"), h("p", null, "The console cannot be reached. What you write is kept in this browser, and this page goes on trying.")] : null);
  setLive(is ? "offline" : "live");
  if (!is) view?.reconnected();
}

function setLive(name) {
  live.dataset.state = name;
  fill(live, h("span", { class: "live-dot" }), h("span", { class: "bar-label" }, name === "live" ? "Live" : "Connecting…"));
}

function route() {
  const [, list, id] = /^#\/(open|done)?(?:\/(.+))?$/.exec(location.hash) ?? [];
  state.list = list ?? "open";
  let wanted = null;
  try {
    wanted = id === undefined ? null : decodeURIComponent(id);
  } catch {
    // An invalid address shows the list.
  }
  if (view && view.id !== wanted) {
    view.end();
    view = null;
  }
  state.selected = wanted;
  if (wanted !== null && !view) {
    view = new Task(wanted, { me: state.me, needName, back, next });
    delete main.dataset.welcome;
    fill(main, view.element);
    main.scrollTop = 0;
    main.focus({ preventScroll: true });
  }
  draw();
  load();
}

function back() {
  location.hash = state.list === "done" ? "#/done" : "#/";
}

function next() {
  const id = queue.next(state.selected);
  if (id !== null) location.hash = `#/${state.list}/${encodeURIComponent(id)}`;
}

async function needName() {
  const name = storage.name() || (await askName());
  draw();
  return name;
}

// start asks the console for the login state, and shows a login or the page.
async function start() {
  unfollow?.();
  unfollow = null;
  try {
    state.me = await api.me();
  } catch (error) {
    fill(app, bar, offline, h("div", { class: "empty" }, h("h1", null, "The console cannot be reached"), h("p", null, error.message),
      button({ class: "button primary", onclick: start }, "Try again")));
    return;
  }
  logout.hidden = !(state.me.auth_required && state.me.authenticated);
  if (state.me.auth_required && !state.me.authenticated) {
    view?.end();
    view = null;
    fill(app, loginView(start));
    return;
  }
  fill(app, bar, offline, h("div", { class: "columns" }, side, main));
  unfollow = follow({
    onchange: load,
    onstate(name) {
      setLive(name);
      // A call shows whether more than the stream is broken.
      if (name === "offline") load();
    },
  });
  route();
}

addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !document.querySelector("dialog[open]")) view?.composer?.trySend();
});
setLive("offline");
addEventListener("hashchange", () => { if (unfollow) route(); });
addEventListener("online", () => load());
document.addEventListener("visibilitychange", () => { if (!document.hidden && unfollow) load(); });
setInterval(() => { if (!document.hidden && unfollow) load(); }, loadEvery);
start();

import { api, explain, locale, onLanguage, t, waiting } from "/assets/text.js";
import { confirmed } from "/assets/confirm.js";
import { recover } from "/assets/recovery.js";
import { loadDeleted } from "/assets/deleted.js";
import { explanation } from "/assets/explanation.js";
import { watchFailed } from "/assets/failed.js";
import { watchProblems } from "/assets/problems.js";

const list = document.getElementById("workspaces");
const empty = document.getElementById("empty");
const connection = document.getElementById("connection");
const admin = document.body.dataset.role === "admin";
const workspaces = new Map(); // id → the object as the server last sent it
const cards = new Map(); // id → its <li>
const failures = new WeakMap(); // notice → the failed request it explains, to translate it again

// ---- cards -----------------------------------------------------------------

const actions = {
  start: (w) => ["PENDING", "ARCHIVED", "STANDBY"].includes(w.phase),
  sleep: (w) => w.phase === "RUNNING",
  archive: (w) => ["RUNNING", "STANDBY"].includes(w.phase),
  recover: (w) => w.phase === "ERROR" && admin,
  delete: (w) => !["DELETING", "DELETED"].includes(w.phase),
};
const desiredState = { start: "RUNNING", sleep: "STANDBY", archive: "ARCHIVED" };

function newCard(id) {
  const li = document.getElementById("card").content.firstElementChild.cloneNode(true);
  li.querySelector("article").dataset.workspace = id;
  li.querySelector("h2").id = `name-${id}`;
  li.querySelector("article").setAttribute("aria-labelledby", `name-${id}`);
  for (const button of li.querySelectorAll("[data-action]")) {
    button.addEventListener("click", () => act(id, button.dataset.action));
  }
  const details = li.querySelector("details");
  details.addEventListener("toggle", () => { if (details.open) explanation(id, details); });
  return li;
}

function show(w) {
  let li = cards.get(w.id);
  if (!li) {
    li = newCard(w.id);
    cards.set(w.id, li);
    const older = [...workspaces.values()].filter((o) => o.created_at < w.created_at && cards.has(o.id) && o.id !== w.id)
      .sort((a, b) => (a.created_at < b.created_at ? 1 : -1))[0];
    list.insertBefore(li, older ? cards.get(older.id) : null);
  }
  const focused = li.contains(document.activeElement) ? document.activeElement : null;
  const article = li.querySelector("article");
  Object.assign(article.dataset, { phase: w.phase, operation: w.operation, desired: w.desired_state, name: w.name });
  text(li, "h2", w.name);
  text(li, ".phase", t.phase[w.phase] ?? w.phase);
  text(li, ".description", w.description ?? "");
  text(li, ".state", stateText(w));
  text(li, ".failure", failureText(w));
  text(li, ".waiting", waitingText(w));
  text(li, "summary", t.details);
  li.querySelector("summary").setAttribute("aria-label", t.details_label(w.name));
  if (li.querySelector("details").open) explanation(w.id, li.querySelector("details"));
  const open = li.querySelector("a.open");
  open.href = w.url;
  open.textContent = t.open;
  open.setAttribute("aria-label", t.open_label(w.name));
  open.hidden = w.phase === "ERROR" || w.phase === "DELETING";
  const busy = w.operation !== "NONE" || article.dataset.pending !== undefined;
  for (const button of li.querySelectorAll("[data-action]")) {
    const action = button.dataset.action;
    button.textContent = t[action];
    button.setAttribute("aria-label", t.action_label(t[action], w.name));
    button.hidden = !actions[action](w);
    button.disabled = busy || desiredState[action] === w.desired_state;
  }
  // The focused button may be hidden now; keep the focus at this workspace.
  if (focused && (focused.hidden || focused.disabled)) li.querySelector("h2").focus();
}

function text(li, selector, value) {
  const el = li.querySelector(selector);
  if (el.textContent !== value) el.textContent = value;
}

function stateText(w) {
  if (w.operation !== "NONE") {
    const seconds = Math.max(0, Math.round((Date.now() - Date.parse(w.op_started_at)) / 1000));
    return `${t.operation[w.operation] ?? w.operation}… ${Number.isNaN(seconds) ? "" : t.for_seconds(seconds)}`;
  }
  if (w.phase !== w.desired_state && w.phase !== "ERROR" && t.desired[w.desired_state]) return t.desired[w.desired_state];
  return w.last_access_at ? t.used(ago(w.last_access_at)) : t.never_used;
}

function waitingText(w) {
  return w.waiting ? waiting(w.waiting) : "";
}

function failureText(w) {
  if (!w.error_reason && w.phase !== "ERROR") return "";
  const lines = [t.failed(w.error_reason ?? "ERROR")];
  if (w.error_message) lines.push(w.error_message);
  if (w.phase === "ERROR" && !admin) lines.push(t.ask_admin);
  return lines.join("\n");
}

function ago(time) {
  const seconds = Math.min(0, (Date.parse(time) - Date.now()) / 1000);
  const format = new Intl.RelativeTimeFormat(locale(), { numeric: "auto" });
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (-seconds >= size) return format.format(Math.round(seconds / size), unit);
  }
  return format.format(Math.round(seconds), "second");
}

function put(w) {
  workspaces.set(w.id, w);
  show(w);
  empty.hidden = true;
}

function remove(id) {
  const li = cards.get(id);
  const hadFocus = li?.contains(document.activeElement);
  li?.remove();
  cards.delete(id);
  workspaces.delete(id);
  if (hadFocus) list.focus();
  empty.hidden = workspaces.size > 0 || list.ariaBusy === "true";
}

// ---- actions ---------------------------------------------------------------

async function act(id, action) {
  const w = workspaces.get(id);
  if (!w || (action === "delete" && !(await confirmed(t.delete_title(w.name), t.delete_text, t.delete)))) return;
  const article = cards.get(id)?.querySelector("article");
  if (!article) return;
  const notice = article.querySelector(".notice");
  notice.hidden = true;
  article.dataset.pending = action;
  show(workspaces.get(id));
  try {
    if (action === "delete") {
      await api("DELETE", `workspaces/${id}`);
      loadDeleted();
      return;
    }
    const answer = action === "recover"
      ? await recover(w)
      : await api("PATCH", `workspaces/${id}`, { desired_state: desiredState[action] });
    // The stream may have sent something newer in the meantime.
    if (answer && workspaces.has(id) && answer.updated_at >= workspaces.get(id).updated_at) workspaces.set(id, answer);
  } catch (error) {
    if (signedOut(error)) return;
    failures.set(notice, error);
    notice.textContent = explain(error, runningNames());
    notice.hidden = false;
  } finally {
    delete article.dataset.pending;
    if (workspaces.has(id)) show(workspaces.get(id));
  }
}

function runningNames() {
  return [...workspaces.values()].filter((w) => w.desired_state === "RUNNING" || w.phase === "RUNNING").map((w) => w.name).join(", ");
}

const createForm = document.getElementById("create-form");
const createMessage = document.getElementById("create-message");
createForm.addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = document.getElementById("create-name");
  const description = document.getElementById("create-description");
  const showMessage = (words) => { createMessage.textContent = words; createMessage.hidden = !words; };
  failures.delete(createMessage);
  if (!name.value.trim()) {
    showMessage(t.name_needed);
    name.focus();
    return;
  }
  showMessage("");
  const button = document.getElementById("create");
  button.disabled = true;
  try {
    const body = { name: name.value.trim() };
    if (description.value.trim()) body.description = description.value.trim();
    const w = await api("POST", "workspaces", body);
    if (!workspaces.has(w.id)) put(w);
    createForm.reset();
    name.focus();
  } catch (error) {
    if (signedOut(error)) return;
    failures.set(createMessage, error);
    showMessage(explain(error, runningNames()));
  } finally {
    button.disabled = false;
  }
});

document.getElementById("logout").addEventListener("click", async () => {
  try {
    await api("POST", "auth/logout");
    location.assign("/login");
  } catch (error) {
    if (!signedOut(error)) alert(explain(error));
  }
});

function signedOut(error) {
  if (error.status !== 401) return false;
  location.assign("/login?return=%2F");
  return true;
}

// ---- live ------------------------------------------------------------------

// The server sends heartbeats. A connection that is silent for longer is dead, even
// without an error.
const maxSilence = 100_000; // milliseconds
let source;
let retry = 1000;
let watchdog;
let state = "connecting";

function setState(next) {
  state = next;
  connection.dataset.state = next;
  connection.textContent = t[next];
}

function connect() {
  source?.close();
  source = new EventSource("/api/v1/events");
  let seen = new Set(); // null once the present list is complete
  const heard = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(reconnect, maxSilence);
  };
  source.onopen = () => { seen = new Set(); heard(); };
  source.addEventListener("workspace_updated", (event) => {
    heard();
    const w = JSON.parse(event.data);
    seen?.add(w.id);
    put(w);
  });
  source.addEventListener("workspace_deleted", (event) => {
    heard();
    remove(JSON.parse(event.data).id);
    loadDeleted();
  });
  source.addEventListener("heartbeat", () => {
    heard();
    if (seen) { // the first heartbeat ends the present list
      list.ariaBusy = "false";
      for (const id of [...workspaces.keys()]) if (!seen.has(id)) remove(id);
      seen = null;
      empty.hidden = workspaces.size > 0;
      retry = 1000;
      loadDeleted();
    }
    setState("live");
  });
  source.onerror = () => {
    setState("lost");
    clearTimeout(watchdog);
    if (source.readyState === EventSource.CLOSED) reconnect(); // the browser does not retry
  };
}

async function reconnect() {
  source.close();
  setState("lost");
  try {
    await api("GET", "auth/session");
  } catch (error) {
    if (signedOut(error)) return;
  }
  setTimeout(connect, retry * (0.75 + Math.random() / 2));
  retry = Math.min(retry * 2, 15_000);
}

onLanguage(() => {
  setState(state);
  for (const w of workspaces.values()) show(w);
  for (const notice of document.querySelectorAll(".notice")) {
    if (failures.has(notice)) notice.textContent = explain(failures.get(notice), runningNames());
  }
});
// The times of operations and of the last use change without any event.
setInterval(() => {
  for (const w of workspaces.values()) if (cards.has(w.id)) text(cards.get(w.id), ".state", stateText(w));
}, 1000);
if (admin) {
  watchProblems();
  watchFailed();
}
connect();

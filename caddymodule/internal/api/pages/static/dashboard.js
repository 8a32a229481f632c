import { api, duration, explain, has, known, locale, onLanguage, size, t } from "/assets/text.js";
import { confirmed } from "/assets/confirm.js";
import { edit } from "/assets/edit.js";
import { countRunning } from "/assets/limits.js";
import { imageField, loadImages } from "/assets/images.js";
import { recover } from "/assets/recovery.js";
import { loadDeleted } from "/assets/deleted.js";
import { watchPassword } from "/assets/password.js";
import { watchSessions } from "/assets/sessions.js";
import { explanation } from "/assets/explanation.js";
import { archives } from "/assets/archives.js";
import { watchFailed } from "/assets/failed.js";
import { watchProblems } from "/assets/problems.js";
import { awakeText, keepAwake, showChoice } from "/assets/awake.js";

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
  // In an error nothing is stopped, but it will not start by itself once it is recovered.
  sleep: (w) => w.phase === "RUNNING" || (w.phase === "ERROR" && w.desired_state === "RUNNING"),
  archive: (w) => ["RUNNING", "STANDBY"].includes(w.phase),
  recover: (w) => admin && (w.phase === "ERROR" || (w.phase === "RUNNING" && w.waiting?.reason === "Conflict")),
  edit: (w) => !["DELETING", "DELETED"].includes(w.phase),
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
  const choice = li.querySelector("select.keep-awake");
  choice.addEventListener("change", () => { if (choice.value) act(id, "keep_awake"); });
  const details = li.querySelector("details");
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    explanation(id, details);
    archives(workspaces.get(id), details, true);
  });
  return li;
}

function show(w) {
  let li = cards.get(w.id);
  if (!li) {
    li = newCard(w.id);
    cards.set(w.id, li);
    const older = [...workspaces.values()]
      .filter((o) => o.created_at < w.created_at && cards.has(o.id) && o.id !== w.id)
      .sort((a, b) => (a.created_at < b.created_at ? 1 : -1))[0];
    list.insertBefore(li, older ? cards.get(older.id) : null);
  }
  const focused = li.contains(document.activeElement) ? document.activeElement : null;
  const article = li.querySelector("article");
  Object.assign(article.dataset, { phase: w.phase, operation: w.operation, desired: w.desired_state, name: w.name });
  text(li, "h2", w.name);
  text(li, ".phase", known("phase.", w.phase));
  text(li, ".description", w.description ?? "");
  text(li, ".state", stateText(w));
  showProgress(li, w);
  text(li, ".failure", failureText(w));
  text(li, ".waiting", waitingText(w));
  text(li, ".awake", awakeText(w));
  text(li, ".home", homeText(w));
  text(li, "summary", t("details"));
  li.querySelector("summary").setAttribute("aria-label", t("details_label", { Name: w.name }));
  if (li.querySelector("details").open) {
    explanation(w.id, li.querySelector("details"));
    archives(w, li.querySelector("details"));
  }
  const open = li.querySelector("a.open");
  open.href = w.url;
  open.textContent = t("open");
  open.setAttribute("aria-label", t("open_label", { Name: w.name }));
  open.hidden = w.phase === "ERROR" || w.phase === "DELETING";
  const busy = w.operation !== "NONE" || article.dataset.pending !== undefined;
  for (const button of li.querySelectorAll("[data-action]")) {
    const action = button.dataset.action;
    button.textContent = t(action);
    button.setAttribute("aria-label", t("action_label", { Action: t(action), Name: w.name }));
    button.hidden = !actions[action](w);
    button.disabled = (busy && action !== "edit") || desiredState[action] === w.desired_state;
  }
  showChoice(li.querySelector("select.keep-awake"), w, busy);
  // The focused button may be hidden now; keep the focus at this workspace.
  if (focused && (focused.hidden || focused.disabled)) li.querySelector("h2").focus();
}

function text(li, selector, value) {
  const el = li.querySelector(selector);
  if (el.textContent !== value) el.textContent = value;
}

function stateText(w) {
  if (w.revert && w.operation === "NONE") return t("archive_restoring");
  if (w.operation !== "NONE") {
    const seconds = Math.max(0, Math.round((Date.now() - Date.parse(w.op_started_at)) / 1000));
    return `${known("operation.", w.operation)}… ${Number.isNaN(seconds) ? "" : duration(seconds)}`;
  }
  const coming = `desired.${w.desired_state}`;
  if (w.phase !== w.desired_state && w.phase !== "ERROR" && has(coming)) return t(coming);
  return w.last_access_at ? t("used", { Ago: ago(w.last_access_at) }) : t("never_used");
}

// The bar of a step whose size is unknown moves without saying how far.
function showProgress(li, w) {
  const box = li.querySelector(".progress");
  box.hidden = !w.progress;
  if (!w.progress) return;
  const bar = box.querySelector("progress");
  if (w.progress.percent === null) bar.removeAttribute("value");
  else bar.value = w.progress.percent;
  bar.setAttribute("aria-label", t("progress_label", { Name: w.name }));
  text(box, "p", w.progress.text[locale()]);
}

function waitingText(w) {
  if (!w.waiting) return "";
  return [w.waiting.help?.[locale()], admin && w.waiting.message].filter(Boolean).join("\n"); // what the server said
}

function homeText(w) {
  if (!w.home) return "";
  const [exact, atLeast] = w.home.large ? ["home_large", "home_large_at_least"] : ["home", "home_at_least"];
  return t(w.home.at_least ? atLeast : exact, { Size: size(w.home.bytes) });
}

function failureText(w) {
  const hasVolume = () => w.conditions["storage.volume_ready"]?.status === "True";
  const damaged = w.archive?.damage ? [hasVolume() ? t("damaged_beside_volume") : t("damaged")] : [];
  if (!w.error_reason && w.phase !== "ERROR") return damaged.join("\n");
  const lines = [t("failed", { Reason: w.error_reason ?? "ERROR" }), ...damaged];
  if (w.error_help) lines.push(w.error_help[locale()]);
  if (w.error_message && admin) lines.push(w.error_message); // what the server said
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
  countRunning([...workspaces.values()]);
  empty.hidden = true;
}

function remove(id) {
  const li = cards.get(id);
  const hadFocus = li?.contains(document.activeElement);
  li?.remove();
  cards.delete(id);
  workspaces.delete(id);
  countRunning([...workspaces.values()]);
  if (hadFocus) list.focus();
  empty.hidden = workspaces.size > 0 || list.ariaBusy === "true";
}

// ---- actions ---------------------------------------------------------------

async function act(id, action) {
  const w = workspaces.get(id);
  if (!w) return;
  const question = [t("delete_title", { Name: w.name }), t("delete_text"), t("delete")];
  if (action === "delete" && !(await confirmed(...question))) return;
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
    const choice = article.querySelector("select.keep-awake");
    const hours = choice.value;
    choice.value = "";
    const answer = action === "recover" ? await recover(w) : action === "edit" ? await edit(w)
      : action === "keep_awake" ? await keepAwake(id, hours)
      : await api("PATCH", `workspaces/${id}`, { desired_state: desiredState[action] });
    // The stream may have sent something newer in the meantime.
    if (answer && workspaces.has(id) && answer.updated_at >= workspaces.get(id).updated_at) workspaces.set(id, answer);
  } catch (error) {
    if (signedOut(error)) return;
    failures.set(notice, error);
    notice.textContent = explain(error);
    notice.hidden = false;
  } finally {
    delete article.dataset.pending;
    if (workspaces.has(id)) show(workspaces.get(id));
  }
}

const createForm = document.getElementById("create-form");
const createMessage = document.getElementById("create-message");
const createImage = imageField("create-image");
loadImages();
createForm.addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = document.getElementById("create-name");
  const description = document.getElementById("create-description");
  const showMessage = (words) => { createMessage.textContent = words; createMessage.hidden = !words; };
  failures.delete(createMessage);
  if (!name.value.trim()) {
    showMessage(t("name_needed"));
    name.focus();
    return;
  }
  showMessage("");
  const button = document.getElementById("create");
  button.disabled = true;
  try {
    const body = { name: name.value.trim() };
    if (description.value.trim()) body.description = description.value.trim();
    if (createImage.value()) body.image_ref = createImage.value();
    const w = await api("POST", "workspaces", body);
    if (!workspaces.has(w.id)) put(w);
    createForm.reset();
    createImage.set(null);
    name.focus();
  } catch (error) {
    if (signedOut(error)) return;
    failures.set(createMessage, error);
    showMessage(explain(error));
  } finally {
    button.disabled = false;
  }
});
// Before this point the browser itself would send the form, and what was typed would be lost.
document.getElementById("create").disabled = false;

document.getElementById("logout").addEventListener("click", async () => {
  try {
    const done = await api("POST", "auth/logout");
    location.assign(done?.redirect ?? "/login");
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
  connection.textContent = t(next);
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
    if (failures.has(notice)) notice.textContent = explain(failures.get(notice));
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
watchSessions();
watchPassword();

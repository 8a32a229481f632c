// The deleted workspaces whose deletion can still be undone.
import { api, date, explain, onLanguage, t } from "/assets/text.js";

const section = document.getElementById("deleted");
const list = document.getElementById("deleted-list");
const message = document.getElementById("deleted-message");
let items = [];
let loading = false;
let again = false;
let failure = null;
const undoing = new Set(); // ids: asked for, and done as soon as the operation in progress has ended

/** Reads the list again; calls that come while it is read become one more reading. */
export async function loadDeleted() {
  again = true;
  if (loading) return;
  loading = true;
  while (again) {
    again = false;
    await load();
  }
  loading = false;
}

async function load() {
  try {
    const found = [];
    let cursor = "";
    do {
      const page = await api("GET", `workspaces?deleted=true&limit=500&cursor=${encodeURIComponent(cursor)}`);
      found.push(...page.items);
      cursor = page.next_cursor;
    } while (cursor);
    items = found;
    for (const id of undoing) if (!items.some((w) => w.id === id)) undoing.delete(id);
    show();
  } catch { /* the connection's state is shown elsewhere, and the next change reads again */ }
}

function show() {
  message.hidden = !failure;
  message.textContent = failure ? explain(failure) : "";
  section.hidden = items.length === 0;
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.id : "";
  list.replaceChildren(...items.map(entry));
  if (!focused) return;
  const again = list.querySelector(`[data-id="${focused}"]:not(:disabled)`) ?? document.getElementById("deleted-title");
  (section.hidden ? document.getElementById("workspaces") : again).focus();
}

function entry(w) {
  const li = document.getElementById("deleted-item").content.firstElementChild.cloneNode(true);
  li.querySelector("strong").textContent = w.name;
  const possible = Date.parse(w.undelete_until) > Date.now();
  const until = possible ? t("until", { Time: date(w.undelete_until) }) : t("until_soon");
  li.querySelector(".until").textContent = undoing.has(w.id) ? t("undelete_waits") : until;
  const button = li.querySelector("button");
  button.dataset.id = w.id;
  button.textContent = t("undelete");
  button.setAttribute("aria-label", t("action_label", { Action: t("undelete"), Name: w.name }));
  button.disabled = w.operation !== "NONE" || undoing.has(w.id);
  button.addEventListener("click", () => { if (section.ariaBusy !== "true") undelete(w); });
  return li;
}

async function undelete(w) {
  failure = null;
  section.ariaBusy = "true";
  try {
    await api("POST", `workspaces/${w.id}/undelete`); // the stream brings the workspace back
    items = items.filter((other) => other.id !== w.id);
    show();
    undoing.delete(w.id);
  } catch (error) {
    // The deletion goes on in steps: one may have begun since the list was read.
    const busy = error.problem?.type === "urn:codehub:problem:operation-in-progress";
    undoing[busy ? "add" : "delete"](w.id);
    failure = busy ? null : error;
    show();
  }
  section.ariaBusy = "false";
  loadDeleted();
}

onLanguage(show);
// What can be undone changes without an event: an operation ends, the collector removes the
// files.
let quiet = 0;
setInterval(() => {
  quiet++;
  const next = items.find((w) => undoing.has(w.id) && w.operation === "NONE");
  if (next && section.ariaBusy !== "true") {
    undelete(next);
    return;
  }
  if (items.length === 0 || document.hidden || (quiet < 15 && items.every((w) => w.operation === "NONE"))) return;
  quiet = 0;
  loadDeleted();
}, 2_000);

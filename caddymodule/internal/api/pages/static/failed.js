// What an administrator can recover for others: their workspaces in ERROR. The
// administrator's own have cards.
import { recover } from "/assets/recovery.js";
import { api, explain, onLanguage, t } from "/assets/text.js";

const section = document.getElementById("failed");
const list = document.getElementById("failed-list");
const message = document.getElementById("failed-message");
const self = document.body.dataset.user;
let items = [];
let more = false;
let failure = null;
let busy = ""; // the id of the one that is being recovered

async function load() {
  try {
    const page = await api("GET", "workspaces?phase=ERROR&all=true&limit=100");
    items = page.items.filter((w) => w.owner_user_id !== self);
    more = page.next_cursor !== null;
    if (!busy) show();
  } catch { /* the connection's state is shown elsewhere */ }
}

function show() {
  message.hidden = !failure;
  message.textContent = failure ? explain(failure) : "";
  section.hidden = items.length === 0 && !failure;
  document.getElementById("failed-more").hidden = !more;
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.id : "";
  list.replaceChildren(...items.map(entry));
  if (!focused) return;
  const again = list.querySelector(`[data-id="${focused}"]:not(:disabled)`) ?? document.getElementById("failed-title");
  (section.hidden ? document.getElementById("workspaces") : again).focus();
}

function entry(w) {
  const li = document.getElementById("failed-item").content.firstElementChild.cloneNode(true);
  li.querySelector("strong").textContent = w.name;
  li.querySelector(".owner").textContent = t("owner", { Name: w.owner_username });
  li.querySelector(".failure").textContent = `${t("failed", { Reason: w.error_reason })}\n${w.error_message ?? ""}`;
  const button = li.querySelector("button");
  button.dataset.id = w.id;
  button.textContent = t("recover");
  button.setAttribute("aria-label", t("action_label", { Action: t("recover"), Name: w.name }));
  button.disabled = busy === w.id;
  button.addEventListener("click", () => { if (!busy) recoverOne(w); });
  return li;
}

// Recovers one; the others are read again, because some time has passed.
async function recoverOne(w) {
  failure = null;
  busy = w.id;
  show();
  try {
    await recover(w);
  } catch (error) {
    failure = error;
  }
  busy = "";
  show();
  load();
}

/** Shows them from now on. */
export function watchFailed() {
  onLanguage(show);
  load();
  setInterval(() => { if (!document.hidden && !busy) load(); }, 30_000);
}

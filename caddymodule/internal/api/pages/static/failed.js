// The problems that an administrator must fix, and the failed workspaces of other users.
import { h, lazy } from "/assets/dom.js";
import { ago, api, explain, known, locale, t } from "/assets/text.js";
import { serverSaid } from "/assets/card.js";
import { recover } from "/assets/recovery.js";
import { pageOf } from "/assets/router.js";
import { changed, signedOut, state, user } from "/assets/store.js";
import { toast } from "/assets/toast.js";

const pause = 30_000; // milliseconds
let problems = [];
let items = [];
let more = false;
let loaded = false;
let failure = null;
let busy = ""; // the id of the workspace being recovered, or the reason of several

async function loadProblems() {
  try {
    const health = await (await fetch("/health/coordinator")).json();
    // A site whose own sign-in does not cover /health/coordinator gets the bare status.
    problems = health.problems ?? (health.status === "ok" ? [] : ["caddy codehub doctor"]);
    changed();
  } catch { /* the connection's state is shown elsewhere */ }
}

async function loadFailed() {
  try {
    const page = await api("GET", "workspaces?phase=ERROR&all=true&limit=100");
    items = page.items.filter((w) => w.owner_user_id !== user.id);
    more = page.next_cursor !== null;
    loaded = true;
    changed();
  } catch { /* the connection's state is shown elsewhere */ }
}

async function recoverOne(w) {
  failure = null;
  busy = w.id;
  changed();
  try {
    await recover(w);
  } catch (error) {
    if (!signedOut(error)) failure = error;
  }
  busy = "";
  await loadFailed();
  document.getElementById("failed-title")?.focus();
}

// Recovers all workspaces with a reason. Those with doubtful files stay, and are recovered one by one.
async function recoverAll(reason) {
  failure = null;
  busy = reason;
  changed();
  try {
    const answer = await api("POST", "workspaces/recover", { reason });
    toast(() => t("recovered_many", { Count: answer.recovered.length }));
  } catch (error) {
    if (!signedOut(error)) failure = error;
  }
  busy = "";
  await loadFailed();
}

const entry = (w) => lazy(w.id, [w, busy, locale(), state.minute], () => h("li", { "data-workspace": w.id },
  h("p", null, h("a", { class: "name", href: pageOf(w.id) }, h("bdi", null, w.name)),
    h("span", { class: "owner" }, t("owner", { Name: w.owner_username })),
    h("span", { class: "failure" }, t("failed", { Reason: known("failed_with.", w.error_reason) })),
    h("code", null, w.error_reason),
    w.phase_changed_at && h("span", { class: "hint" }, t("failed_ago", { Ago: ago(w.phase_changed_at) }))),
  h("button", { type: "button", disabled: busy !== "", onclick: () => recoverOne(w),
    "aria-label": t("action_label", { Action: t("recover"), Name: w.name }) }, t("recover")),
  serverSaid(w.error_message)));

/** The list, as a part of the administrator's view. */
export function failedOnes() {
  if (items.length === 0 && !failure) return loaded && h("p", { class: "empty", "data-key": "none" }, t("none_failed"));
  const reasons = [...new Set(items.map((w) => w.error_reason))].filter((reason) =>
    items.filter((w) => w.error_reason === reason).length > 1);
  return h("section", { id: "failed", class: "panel", "aria-labelledby": "failed-title", "data-key": "failed" },
    h("h2", { id: "failed-title", tabindex: "-1" }, t("failed_title")),
    failure && h("p", { id: "failed-message", class: "notice", role: "alert" }, explain(failure)),
    reasons.length > 0 && h("p", { class: "row" }, reasons.map((reason) => h("button", { type: "button", "data-reason": reason,
      disabled: busy !== "", onclick: () => recoverAll(reason) }, t("recover_all", { Reason: known("failed_with.", reason) })))),
    h("ul", { id: "failed-list", class: "lines" }, items.map(entry)),
    more && h("p", { id: "failed-more", class: "hint" }, t("failed_more")));
}

/** Reads both again. */
export function loadFailures() {
  loadProblems();
  loadFailed();
}

if (user.admin) {
  loadFailures();
  setInterval(() => { if (!document.hidden && !busy) loadFailures(); }, pause);
}

/** The problems for an administrator, on every view, and the number of failed workspaces beside their link. */
export const problemList = () => (problems.length > 0
  ? h("section", { id: "problems", class: "notice", role: "alert" }, h("h2", null, t("problems_title")),
    h("ul", { id: "problems-list" }, problems.map((problem) => h("li", { lang: "en" }, problem)))) // the server's own message
  : null);
export const failedCount = () => items.length;

// The actions on a workspace.
import { api, t } from "/assets/text.js";
import { create } from "/assets/create.js";
import { confirmed } from "/assets/dialogs.js";
import { edit } from "/assets/edit.js";
import { recover } from "/assets/recovery.js";
import { report } from "/assets/report.js";
import { rename } from "/assets/rename.js";
import { pageOf } from "/assets/router.js";
import { dozes, imageMayHelp, kept, pullFailed } from "/assets/status.js";
import { changed, put, running, signedOut, state, user } from "/assets/store.js";
import { withRoom } from "/assets/swap.js";
import { toast } from "/assets/toast.js";
import { undelete } from "/assets/undo.js";

const there = (w) => !["DELETING", "DELETED"].includes(w.phase);
const desired = (w, is) => w.desired_state !== is;
// It is on its way to another state, but waits for something external, so it can be cancelled.
const waits = (w, phase) => w.phase === phase && w.desired_state === "RUNNING" && Boolean(w.waiting);
const awake = (w) => w.phase === "RUNNING" && w.desired_state === "RUNNING";
const own = (w) => w.owner_user_id === user.id;
const verb = (name) => (w) => api("POST", `workspaces/${w.id}/${name}`);
const keepAwake = (hours) => (w) => api("POST", `workspaces/${w.id}/keep-awake`, { hours });

// Each action has an icon, a condition and a function. An action with always works during an operation, and one with
// cancels while the operation waits.
const actions = {
  start: { icon: "play", cancels: true, offered: (w) => dozes(w) || (["PENDING", "ARCHIVED", "STANDBY"].includes(w.phase) && desired(w, "RUNNING")),
    run: (w) => withRoom(w.name, () => verb("start")(w)) },
  // Its image could not be pulled: a start retries immediately.
  retry: { icon: "play", cancels: true, offered: pullFailed, run: (w) => withRoom(w.name, () => verb("start")(w)) },
  // In ERROR this stops nothing, but keeps the workspace from starting after its recovery.
  sleep: { icon: "moon", cancels: true, offered: (w) => desired(w, "STANDBY") &&
    (w.phase === "RUNNING" || waits(w, "STANDBY") || (w.phase === "ERROR" && w.desired_state === "RUNNING")), run: verb("sleep") },
  archive: { icon: "archive", cancels: true, offered: (w) => (["RUNNING", "STANDBY"].includes(w.phase) || waits(w, "ARCHIVED")) &&
    desired(w, "ARCHIVED"), run: verb("archive") },
  keep_awake_1: { icon: "clock", offered: awake, run: keepAwake(1) },
  keep_awake_4: { icon: "clock", offered: awake, run: keepAwake(4) },
  keep_awake_8: { icon: "clock", offered: awake, run: keepAwake(8) },
  "keep_awake_end": { icon: "clock", offered: (w) => awake(w) && kept(w), run: keepAwake(0) },
  recover: { icon: "wrench", run: recover,
    offered: (w) => user.admin && (w.phase === "ERROR" || (w.phase === "RUNNING" && w.waiting?.reason === "Conflict")) },
  report: { icon: "info", offered: (w) => !user.admin && (w.phase === "ERROR" || Boolean(w.archive?.damage)), always: true, run: report },
  edit: { icon: "edit", offered: there, always: true, run: edit },
  rename: { icon: "cursor", offered: there, always: true, run: rename },
  favourite: { icon: "star", offered: (w) => there(w) && own(w), always: true,
    run: (w) => api("PATCH", `workspaces/${w.id}`, { favourite: !w.favourite }) },
  "duplicate": { icon: "copy", offered: there, always: true, run: create },
  "copy_address": { icon: "link", offered: there, always: true, run: copyAddress },
  details: { icon: "info", offered: there, always: true, run: (w) => { location.hash = pageOf(w.id); } },
  delete: { icon: "trash", cancels: true, offered: there, danger: true, run: remove },
};

/** The names of the actions that a workspace offers. */
export const offered = (w) => Object.keys(actions).filter((name) => actions[name].offered(w));

/** Whether an action must wait for the end of the operation. An operation that only waits can be cancelled. */
export const blocked = (w, name) => !actions[name].always &&
  ((w.operation !== "NONE" && (!w.waiting || !actions[name].cancels)) || state.pending.has(w.id));

export const pictureOf = (name) => actions[name].icon;
export const isDanger = (name) => Boolean(actions[name].danger);

/** The label of an action on that workspace. */
export function nameOf(name, w) {
  if (name === "start" && w && dozes(w)) return t("start_dozing");
  if (name === "edit" && w && imageMayHelp(w)) return t("image_choose");
  if (name === "favourite" && w?.favourite) return t("favourite_end");
  const hours = /^keep_awake_(\d+)$/.exec(name);
  return hours ? t("keep_awake_for", { Count: Number(hours[1]) }) : t(name);
}

/** Runs an action on a workspace, whose card shows a failure. */
export async function act(w, name) {
  state.failures.delete(w.id);
  state.pending.set(w.id, name);
  changed();
  try {
    const answer = await actions[name].run(w);
    if (answer?.id && (state.workspaces.has(w.id) || state.others.has(w.id))) put(answer);
  } catch (error) {
    if (!signedOut(error)) state.failures.set(w.id, error);
  } finally {
    state.pending.delete(w.id);
    changed();
  }
}

// Browsers deny pages without TLS the clipboard: then the message is the address, to be copied by hand.
async function copyAddress(w) {
  const address = new URL(w.url, location.href).href;
  try {
    await navigator.clipboard.writeText(address);
    toast(() => t("address_copied", { Name: w.name }));
  } catch {
    toast(() => address, null, "copy");
  }
}

async function remove(w) {
  if (!(await agreed([w]))) return;
  await api("DELETE", `workspaces/${w.id}`);
  deleted([w]);
}

// A deletion of several workspaces, or of running ones, asks once: undoing it restores files, but not programs.
async function agreed(list) {
  const ends = list.filter((w) => w.phase === "RUNNING");
  if (list.length === 1 && ends.length === 0) return true;
  const one = list.length === 1;
  const title = one ? t("delete_title", { Name: list[0].name }) : t("delete_many_title", { Count: list.length });
  const warning = ends.length > 0 && (one ? t("delete_one_running") : t("delete_running", { Count: ends.length }));
  return confirmed(title, [warning, t("delete_kept")].filter(Boolean).join(" "), t("delete"));
}

// Deleting several workspaces can be undone as one.
function deleted(gone) {
  if (gone.some((w) => location.hash === pageOf(w.id))) location.hash = "#/";
  let went = false;
  toast(() => (gone.length === 1 ? t("deleted_one", { Name: gone[0].name }) : t("deleted_many", { Count: gone.length })),
    { say: () => t("undelete"), run: () => { for (const w of gone) undelete(w.id); } }, "done",
    () => {
      const back = gone.every((w) => there(state.workspaces.get(w.id) ?? { phase: "DELETED" }));
      went ||= !back; // the stream reports it later
      return !(went && back) && !gone.some((w) => state.purged.has(w.id));
    });
}

/** Runs an action on several workspaces, one after the other, and deselects them unless the person gives up. */
export async function actOnAll(all, name) {
  const list = all.filter((w) => actions[name].offered(w) && !blocked(w, name));
  if (name === "delete" && list.length > 0 && !(await agreed(list))) return;
  for (const w of all) state.selected.delete(w.id);
  const done = [];
  for (const w of list) {
    state.pending.set(w.id, name);
    changed();
    try {
      if (name === "delete") await api("DELETE", `workspaces/${w.id}`);
      else put(await actions[name].run(w));
      done.push(w);
    } catch (error) {
      if (signedOut(error)) break;
      state.failures.set(w.id, error);
    } finally {
      state.pending.delete(w.id);
    }
  }
  if (name === "delete" && done.length > 0) deleted(done);
  else toast(() => t("done_many", { Count: done.length, Action: nameOf(name) }));
  changed();
}

/** Whether opening it would exceed the limit of running workspaces. */
const full = (w) => state.limit !== null && running().length >= state.limit &&
  (dozes(w) || (w.desired_state !== "RUNNING" && w.phase !== "RUNNING"));

/** Follows the link that opens a workspace. At the limit, it first asks which other one goes to sleep. */
export async function open(w, event) {
  if (!full(w) || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  state.failures.delete(w.id);
  try {
    const answer = await withRoom(w.name, () => verb("start")(w));
    if (!answer) return;
    put(answer);
    const tab = window.open(w.url, "_blank");
    if (tab) tab.opener = null;
    else toast(() => t("room_made", { Name: w.name }), { say: () => t("open"), run: () => location.assign(w.url) });
  } catch (error) {
    if (!signedOut(error)) state.failures.set(w.id, error);
    changed();
  }
}

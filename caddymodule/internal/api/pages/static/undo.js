// The deleted workspaces whose deletion can still be undone.
import { api, t } from "/assets/text.js";
import { confirmed } from "/assets/dialogs.js";
import { changed, signedOut, state } from "/assets/store.js";
import { failed } from "/assets/toast.js";

let loading = false;
let again = false;

/** Reads the list again; calls during a reading cause one more. */
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
    state.deleted = found;
    for (const id of state.undoing) if (state.workspaces.has(id)) state.undoing.delete(id);
    changed();
  } catch { /* the connection's state is shown elsewhere, and the next change reads again */ }
}

/** Undoes the deletion of a workspace; the stream brings it back. */
export async function undelete(id) {
  state.undoing.add(id);
  changed();
  try {
    await api("POST", `workspaces/${id}/undelete`);
    state.undoing.delete(id);
    state.deleted = state.deleted.filter((w) => w.id !== id);
  } catch (error) {
    // The deletion continues in steps: one may have begun, and the interval below retries.
    if (error.problem?.type !== "urn:codehub:problem:operation-in-progress") {
      state.undoing.delete(id);
      if (!signedOut(error)) failed(t("undelete"), error);
    }
  }
  changed();
  await loadDeleted();
}

/** Deletes the kept files of a deleted workspace immediately. */
export async function purge(w) {
  if (!(await confirmed(t("purge_title", { Name: w.name }), t("purge_text"), t("purge")))) return;
  try {
    await api("DELETE", `workspaces/${w.id}?now=true`);
    state.purged.add(w.id);
  } catch (error) {
    if (!signedOut(error)) failed(t("purge"), error);
  }
  await loadDeleted();
}

// The list changes without an event when an operation ends or the collector removes the
// files.
let quiet = 0;
setInterval(() => {
  quiet++;
  const next = state.deleted.find((w) => state.undoing.has(w.id) && w.operation === "NONE");
  if (next) {
    undelete(next.id);
    return;
  }
  if (state.deleted.length === 0 || document.hidden) return;
  if (quiet < 15 && state.deleted.every((w) => w.operation === "NONE")) return;
  quiet = 0;
  loadDeleted();
}, 2_000);

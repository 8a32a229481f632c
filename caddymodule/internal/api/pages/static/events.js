// Follows the server's events: first the current list, then changes.
import { api } from "/assets/text.js";
import { changed, signedOut, state } from "/assets/store.js";
import { loadDeleted } from "/assets/undo.js";

// The server sends heartbeats. A connection that is silent for longer is dead, even
// without an error.
const maxSilence = 100_000; // milliseconds
let source;
let retry = 1000;
let watchdog;

function connection(next) {
  state.connection = next;
  changed();
}

function remove(id) {
  for (const part of [state.workspaces, state.pending, state.failures, state.selected]) part.delete(id);
  if (state.renaming === id) state.renaming = "";
  changed();
}

/** Connects, and reconnects whenever the connection is lost. */
export function connect() {
  source?.close();
  source = new EventSource("/api/v1/events");
  let seen = new Set(); // null once the current list is complete
  const heard = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(reconnect, maxSilence);
  };
  source.onopen = () => { seen = new Set(); heard(); };
  source.addEventListener("workspace_updated", (event) => {
    heard();
    const w = JSON.parse(event.data);
    seen?.add(w.id);
    state.workspaces.set(w.id, w);
    changed();
  });
  source.addEventListener("workspace_deleted", (event) => {
    heard();
    remove(JSON.parse(event.data).id);
    loadDeleted();
  });
  source.addEventListener("heartbeat", () => {
    heard();
    if (seen) { // the first heartbeat ends the current list
      for (const id of [...state.workspaces.keys()]) if (!seen.has(id)) remove(id);
      seen = null;
      state.loaded = true;
      retry = 1000;
      loadDeleted();
    }
    connection("live");
  });
  source.addEventListener("resumed", () => { // everything that this stream has not mentioned is unchanged
    heard();
    seen = null;
    retry = 1000;
    connection("live");
  });
  source.onerror = () => {
    connection("lost");
    clearTimeout(watchdog);
    if (source.readyState === EventSource.CLOSED) reconnect(); // the browser does not retry
  };
}

async function reconnect() {
  source.close();
  connection("lost");
  try {
    await api("GET", "auth/session");
  } catch (error) {
    if (signedOut(error)) return;
  }
  setTimeout(connect, retry * (0.75 + Math.random() / 2));
  retry = Math.min(retry * 2, 15_000);
}

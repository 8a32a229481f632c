// The state of the page, all in one place. Views are drawn again when it changes.
import { onLanguage } from "/assets/text.js";

const body = document.body.dataset;

/** The user, from the page as the server sent it. */
export const user = { id: body.user, name: body.username, admin: body.role === "admin", sessions: "sessions" in body,
  passwords: "passwords" in body, minPassword: Number(body.minPassword) };

export const state = {
  connection: "connecting", // or "live", "lost"
  expired: false, // the session has ended
  loaded: false, // the current list is complete
  workspaces: new Map(), // id → the object as the server last sent it
  pending: new Map(), // id → the request that is not answered yet
  failures: new Map(), // id → the failed request that its card explains
  others: new Map(), // id → a workspace of another user that an administrator has opened
  deleted: [], // workspaces whose deletion can be undone
  undoing: new Set(), // ids: requested, and undone as soon as the operation in progress has ended
  images: { items: [], any_reference: false },
  limit: null, // how many of the user's workspaces may run
  menu: "", // the id of the workspace whose menu is open
  purged: new Set(), // the ids of workspaces of which nothing is kept
  renaming: "", // the id of the workspace whose name is a field
  query: "",
  filter: "",
  sort: stored("sort", "state"),
  reverse: stored("reverse", ""), // "true" turns the order round
  view: stored("view", ""), // "cards", "table", or what fits the number
  prices: stored("prices", ""), // JSON, by purpose
  selected: new Set(), // ids
  minute: 0, // texts about time change with it
};

function stored(name, otherwise) {
  try { return localStorage.getItem(`codehub.${name}`) ?? otherwise; } catch { return otherwise; }
}

/** Sets how the list looks, and remembers it in this browser. */
export function remember(name, value) {
  state[name] = value;
  try { localStorage.setItem(`codehub.${name}`, value); } catch { /* it applies to this page only */ }
  changed();
}

const views = [];
let drawing = 0;

/** Calls draw soon after the state or the language has changed. */
export function onChange(draw) {
  views.push(draw);
  changed();
}

/** Reports a change of the state. Simultaneous changes are drawn once. */
export function changed() {
  drawing ||= setTimeout(draw, 16);
}

function draw() {
  clearTimeout(drawing);
  drawing = 0;
  for (const view of views) view();
}

/** Whether a request failed because the session has ended, which the page then shows. */
export function signedOut(error) {
  if (error.status !== 401) return false;
  state.expired = true;
  changed();
  return true;
}

/** Whether it counts as running: workspaces in ERROR and dozing ones do not. */
export const takesPlace = (w) => !["ERROR", "DELETING", "DELETED"].includes(w.phase) && !w.doze_at &&
  (w.phase === "RUNNING" || w.desired_state === "RUNNING");

/** The workspaces that count as running. */
export const running = () => [...state.workspaces.values()].filter(takesPlace);

/** Keeps an answer, unless the stream has sent something newer in the meantime. */
export function put(w) {
  const kept = state.others.has(w.id) ? state.others : state.workspaces;
  const known = kept.get(w.id);
  if (!known || w.updated_at >= known.updated_at) kept.set(w.id, w);
  changed();
}

onLanguage(draw);
setInterval(() => { state.minute++; changed(); }, 20_000);

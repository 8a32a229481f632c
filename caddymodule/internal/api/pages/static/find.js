// Which workspaces are shown, and in which order.
import { needsCare } from "/assets/status.js";
import { state } from "/assets/store.js";

const inState = {
  care: needsCare,
  awake: (w) => w.phase === "RUNNING" || (w.desired_state === "RUNNING" && w.phase !== "DELETING"),
  asleep: (w) => w.phase === "STANDBY",
  archived: (w) => w.phase === "ARCHIVED",
};

/** The states by which people filter. */
export const filters = Object.keys(inState);

const text = (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true });
const later = (of) => (a, b) => (Date.parse(of(b)) || 0) - (Date.parse(of(a)) || 0);
const order = {
  state: later((w) => w.last_access_at ?? w.created_at),
  name: text,
  used: later((w) => w.last_access_at),
  created: later((w) => w.created_at),
  size: (a, b) => (b.home?.bytes ?? -1) - (a.home?.bytes ?? -1),
};

/** The orders that people choose. */
export const sorts = Object.keys(order);

/** Those that fit what people look for, in the order that they chose. */
export function find(all) {
  const words = state.query.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  const fits = (w) => {
    const about = [w.name, w.description, w.memo, w.image_ref, w.id].join("\n").toLocaleLowerCase();
    return words.every((word) => about.includes(word)) && (inState[state.filter]?.(w) ?? true);
  };
  return all.filter(fits).sort((a, b) => order[state.sort]?.(a, b) || text(a, b));
}

/** The parts of the first view: by state, or one when people look for something. */
export function groups(list) {
  if (state.query || state.filter || state.sort !== "state") return [{ name: "found", items: list }].filter(({ items }) => items.length);
  const usable = (w) => !needsCare(w) && w.phase !== "DELETING";
  const first = list.find((w) => usable(w) && w.last_access_at) ?? null;
  const rest = list.filter((w) => w !== first);
  const care = rest.filter(inState.care);
  const awake = rest.filter((w) => !care.includes(w) && inState.awake(w));
  const others = rest.filter((w) => !care.includes(w) && !awake.includes(w));
  return [{ name: "continue", items: first ? [first] : [] }, { name: "care", items: care }, { name: "awake", items: awake },
    { name: "rest", items: others }].filter(({ items }) => items.length > 0);
}

// Which workspaces are shown, and in which order.
import { dozes, needsCare } from "/assets/status.js";
import { state, takesPlace } from "/assets/store.js";

const inState = {
  care: needsCare,
  favourite: (w) => w.favourite,
  running: takesPlace,
  dozing: dozes,
  asleep: (w) => w.phase === "STANDBY" && !takesPlace(w),
  archived: (w) => w.phase === "ARCHIVED" && !takesPlace(w),
};

/** The states by which people filter. */
export const filters = Object.keys(inState);

const text = (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true });
const later = (of) => (a, b) => (Date.parse(of(b)) || 0) - (Date.parse(of(a)) || 0);
const recent = later((w) => w.last_access_at ?? w.created_at);
const ranks = filters.filter((name) => name !== "favourite"); // a workspace in none of these states, such as a new one, comes last
const rank = (w) => (ranks.findIndex((name) => inState[name](w)) + ranks.length + 1) % (ranks.length + 1);
const order = {
  state: (a, b) => rank(a) - rank(b) || recent(a, b),
  name: text,
  used: later((w) => w.last_access_at),
  created: later((w) => w.created_at),
  size: (a, b) => (b.home?.bytes ?? -1) - (a.home?.bytes ?? -1),
};

/** The orders that people choose. */
export const sorts = Object.keys(order);

/** The workspaces that match the search and the filter, in the chosen order. */
export function find(all) {
  const words = state.query.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  const fits = (w) => {
    const about = [w.name, w.description, w.memo, w.image_ref, w.id].join("\n").toLocaleLowerCase();
    return words.every((word) => about.includes(word)) && (inState[state.filter]?.(w) ?? true);
  };
  const way = state.reverse ? -1 : 1;
  return all.filter(fits).sort((a, b) => way * (order[state.sort]?.(a, b) || text(a, b)));
}

/** The parts of the first view: one per state, or a single one during a search. */
export function groups(list) {
  if (state.query || state.filter || state.sort !== "state" || state.reverse) return [{ name: "found", items: list }].filter(({ items }) => items.length);
  const usable = (w) => !needsCare(w) && w.phase !== "DELETING";
  const first = list.filter((w) => usable(w) && w.last_access_at).sort(order.used).slice(0, 1);
  const groupOf = (w) => ["care", "favourite", "running", "dozing"].find((name) => inState[name](w)) ?? "rest";
  const rest = list.filter((w) => !first.includes(w));
  return [{ name: "continue", items: first },
    ...["care", "favourite", "running", "dozing", "rest"].map((name) => ({ name, items: rest.filter((w) => groupOf(w) === name) }))]
    .filter(({ items }) => items.length > 0);
}

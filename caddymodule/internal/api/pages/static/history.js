// The history of a workspace, newest first.
import { h } from "/assets/dom.js";
import { brief, date, has, known, t } from "/assets/text.js";
import { serverSaid } from "/assets/card.js";
import { user } from "/assets/store.js";

function value(item, word) {
  if (word === null || word === undefined) return "";
  const kind = { phase: "phase.", operation: "operation.", desired_state: "asked_for.", waiting: "waits_for.", error: "failed_with." }[item.kind];
  return kind ? known(kind, word) : word;
}

function kindOf(item) {
  if (item.kind === "reverted" && item.message) return "revert_failed";
  return has(`history.${item.kind}`) ? item.kind : "unknown";
}

const by = (item) => (item.username ? t("history_by", { Name: item.username }) : known("cause.", item.cause));

/** One event; about names its workspace in a list of several. */
export function entry(item, about) {
  return h("li", { "data-kind": kindOf(item), "data-key": String(item.id) }, about,
    h("p", null, t(`history.${kindOf(item)}`, { Kind: item.kind, Value: value(item, item.new_value) })),
    about && item.message && user.admin && serverSaid(item.message), // a workspace's own page shows it elsewhere
    h("p", { class: "hint" }, t("history_when", { Time: date(item.at), By: by(item) })));
}

/** Whether an event is worth showing: the end of a step or a wait adds nothing to the phase after it. */
export const says = (item) => !(item.kind === "operation" && item.new_value === "NONE") && !(item.kind === "waiting" && !item.new_value);

const steps = new Set(["operation", "phase", "waiting"]);

// Steps after these events do not belong to an earlier request.
const breaks = new Set(["error", "recovered", "deleted", "undeleted"]);

/**
 * Groups the controller's steps under their request if its phase was reached. Items and events are newest first; an
 * event is { item, steps, end }, where only such a request has steps and end.
 */
export function events(items) {
  const all = [];
  let open = null; // the request that the steps belong to
  let phase = "";
  for (const item of [...items].reverse()) {
    const asks = item.kind === "desired_state" || item.kind === "created";
    const event = { item, steps: [] };
    all.push(event);
    if (item.kind === "phase") phase = item.new_value;
    if (asks) open = phase === item.new_value ? null : event; // the phase may already be reached
    else if (breaks.has(item.kind) || (item.kind === "phase" && item.new_value === "ERROR")) open = null;
    else if (open && steps.has(item.kind)) {
      open.steps.unshift(item);
      if (item.kind !== "phase" || item.new_value !== (open.item.new_value || "RUNNING")) continue;
      open.end = item;
      open = null;
    }
  }
  const within = new Set(all.filter((e) => e.end).flatMap((e) => e.steps));
  return all.filter((e) => !within.has(e.item)).map((e) => (e.end ? e : { item: e.item, steps: [] })).reverse();
}

// A request and its result as one entry.
function event({ item, steps, end }) {
  if (!end) return entry(item);
  const what = item.kind === "created" ? "created" : `done.${end.new_value}`;
  return h("li", { "data-kind": item.kind, "data-key": String(item.id) },
    h("p", null, t("history_done", { What: t(`history.${what}`), By: by(item), Took: brief(Date.parse(end.at) - Date.parse(item.at)) })),
    h("p", { class: "hint" }, t("at", { Time: date(item.at) })),
    h("details", null, h("summary", { class: "hint" }, t("history_steps")),
      h("ol", null, steps.map((step) => h("li", { "data-key": String(step.id) }, t("history_step", {
        What: t(`history.${kindOf(step)}`, { Kind: step.kind, Value: value(step, step.new_value) }),
        After: brief(Date.parse(step.at) - Date.parse(item.at)),
      }))))));
}

function draw({ items }) {
  const shown = events(items.filter(says));
  return shown.length > 0 ? h("ol", { class: "timeline" }, shown.map(event)) : h("p", { class: "hint" }, t("history_none"));
}

/** The part of a workspace's page: its API path and its drawing. */
export const history = { path: "history?limit=100", draw };

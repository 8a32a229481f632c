// What happened to a workspace, newest first.
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

/** One thing that happened; about says to which workspace, where there are several. */
export function entry(item, about) {
  return h("li", { "data-kind": kindOf(item), "data-key": String(item.id) }, about,
    h("p", null, t(`history.${kindOf(item)}`, { Kind: item.kind, Value: value(item, item.new_value) })),
    about && item.message && user.admin && serverSaid(item.message), // the page of one says it elsewhere
    h("p", { class: "hint" }, t("history_when", { Time: date(item.at), By: by(item) })));
}

/** Whether it says something: steps and waits that end do not say more than the phase after them. */
export const says = (item) => !(item.kind === "operation" && item.new_value === "NONE") && !(item.kind === "waiting" && !item.new_value);

const steps = new Set(["operation", "phase", "waiting"]);

// After these the next steps are not taken for a request before them.
const breaks = new Set(["error", "recovered", "deleted", "undeleted"]);

/**
 * Puts the controller's steps behind what they were taken for, if its phase was reached. Items and events are newest first; an
 * event is { item, steps, end }, where steps and end are of such a request alone.
 */
export function events(items) {
  const all = [];
  let open = null; // the request that the steps are taken for
  let phase = "";
  for (const item of [...items].reverse()) {
    const asks = item.kind === "desired_state" || item.kind === "created";
    const event = { item, steps: [] };
    all.push(event);
    if (item.kind === "phase") phase = item.new_value;
    if (asks) open = phase === item.new_value ? null : event; // it may be there already
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

// A request and what became of it, as one thing.
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

/** The part of a workspace's page: where it is read, and how it is drawn. */
export const history = { path: "history?limit=100", draw };

// What happened to a workspace, newest first.
import { h } from "/assets/dom.js";
import { date, has, known, t } from "/assets/text.js";
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

/** One thing that happened; about says to which workspace, where there are several. */
export function entry(item, about) {
  const by = item.username ? t("history_by", { Name: item.username }) : known("cause.", item.cause);
  return h("li", { "data-kind": kindOf(item), "data-key": String(item.id) }, about,
    h("p", null, t(`history.${kindOf(item)}`, { Kind: item.kind, Value: value(item, item.new_value) })),
    item.message && user.admin && h("p", { class: "hint", lang: "en" }, item.message), // the server's own words
    h("p", { class: "hint" }, t("history_when", { Time: date(item.at), By: by })));
}

/** Whether it says something: steps and waits that end do not say more than the phase after them. */
export const says = (item) => !(item.kind === "operation" && item.new_value === "NONE") && !(item.kind === "waiting" && !item.new_value);

function draw({ items }) {
  const shown = items.filter(says);
  return shown.length > 0 ? h("ol", { class: "timeline" }, shown.map((item) => entry(item))) : h("p", { class: "hint" }, t("history_none"));
}

/** The part of a workspace's page: where it is read, and how it is drawn. */
export const history = { path: "history?limit=30", draw };

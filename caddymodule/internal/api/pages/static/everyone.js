// The workspaces of all users, for administrators.
import { choose, h, lazy } from "/assets/dom.js";
import { locale, known, t } from "/assets/text.js";
import { marks, phase } from "/assets/card.js";
import { paged, searchField } from "/assets/paged.js";
import { pageOf } from "/assets/router.js";
import { activityText, awakeText, failureText, sizeText, usedTime, waitingText } from "/assets/status.js";
import { state } from "/assets/store.js";

const list = paged("workspaces");
const phases = ["RUNNING", "STANDBY", "ARCHIVED", "ERROR", "PENDING", "DELETING"];
const sorts = { "-last_access_at": "used", name: "name", "-created_at": "created", "-home_bytes": "size", phase: "state" };
let query = { all: "true", sort: "-last_access_at" };

function ask(change) {
  query = { ...query, ...change };
  list.read(Object.fromEntries(Object.entries(query).filter(([, value]) => value)));
}

/** Reads the list. */
export const loadEveryone = () => ask({});

const explained = (w) => [activityText(w), waitingText(w), awakeText(w), failureText(w)].filter(Boolean)[0]?.split("\n")[0] ?? "";

const row = (w) => lazy(w.id, [w, locale(), state.minute], () => h("tr", marks(w),
  h("th", { scope: "row" }, h("a", { href: pageOf(w.id) }, h("bdi", null, w.name))),
  h("td", null, h("bdi", null, w.owner_username)),
  h("td", null, phase(w), h("p", { class: "hint condition" }, explained(w))),
  h("td", { class: "used" }, usedTime(w)),
  h("td", { class: "number" }, sizeText(w) ?? "")));

/** The list, as a part of the administrator's view. */
export const everyone = () => [
  h("div", { class: "tools", role: "search", "data-key": "tools" },
    searchField("everyone-search", t("search"), (q) => ask({ q })),
    choose("everyone-phase", t("filters.label"), query.phase ?? "",
      [["", t("filters.all")], ...phases.map((name) => [name, known("phase.", name)])], (value) => ask({ phase: value })),
    choose("everyone-sort", t("sorts.label"), query.sort, Object.entries(sorts).map(([value, name]) => [value, t(`sorts.${name}`)]),
      (value) => ask({ sort: value }))),
  h("table", { id: "everyone", class: "workspaces", hidden: list.items.length === 0, "data-key": "table" },
    h("caption", { class: "hidden" }, t("tabs.workspaces")),
    h("thead", null, h("tr", null, [t("name"), t("owner_title"), t("column_state"), t("column_used"), t("files")].map((name, i) =>
      h("th", { scope: "col", class: ["", "", "", "used", "number"][i] }, name)))),
    h("tbody", null, list.items.map(row))),
  list.end(),
];

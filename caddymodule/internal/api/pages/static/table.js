// The list as a table, for many workspaces, and actions on several at once.
import { h, lazy } from "/assets/dom.js";
import { t } from "/assets/text.js";
import { actOnAll, nameOf } from "/assets/actions.js";
import { doings, marks, memo, phase, refusal, star } from "/assets/card.js";
import { nameOr } from "/assets/rename.js";
import { pageOf } from "/assets/router.js";
import { activityText, awakeText, failureText, sizeText, usedTime, waitingText } from "/assets/status.js";
import { changed, remember, state } from "/assets/store.js";

const explained = (w) => [activityText(w), waitingText(w), awakeText(w), failureText(w)].filter(Boolean)[0]?.split("\n")[0] ?? "";

function select(w, on) {
  if (on) state.selected.add(w.id);
  else state.selected.delete(w.id);
  changed();
}

const row = (w) => lazy(w.id, memo(w), () => h("tr", marks(w),
  h("td", { class: "check" }, h("input", { type: "checkbox", checked: state.selected.has(w.id),
    "aria-label": t("select_label", { Name: w.name }), onchange: (event) => select(w, event.target.checked) })),
  h("th", { scope: "row" }, nameOr(w, h("a", { href: pageOf(w.id), id: `name-${w.id}` }, star(w), h("bdi", null, w.name))),
    w.description && h("p", { class: "description" }, w.description)),
  h("td", null, phase(w), h("p", { class: "hint condition" }, explained(w)), refusal(w)),
  h("td", { class: "used" }, usedTime(w)),
  h("td", { class: "number" }, sizeText(w) ?? ""),
  h("td", { class: "doings" }, doings(w, [], 1))));

const upwards = ["name", "state"]; // the others begin with the latest or the largest

function sortBy(sort) {
  remember("reverse", state.sort === sort && !state.reverse ? "true" : "");
  remember("sort", sort);
}

function column(name, sort, label) {
  const sorted = upwards.includes(sort) === !state.reverse ? "ascending" : "descending";
  return h("th", { scope: "col", class: name, "aria-sort": state.sort === sort ? sorted : null },
    h("button", { type: "button", class: "plain", "data-sort": sort, onclick: () => sortBy(sort) }, label));
}

/** The table of the workspaces found. */
export function table(list) {
  const all = list.length > 0 && list.every((w) => state.selected.has(w.id));
  return h("table", { class: "workspaces", "data-key": "table" },
    h("caption", { class: "hidden" }, t("workspaces")),
    h("thead", null, h("tr", null,
      h("td", { class: "check" }, h("input", { type: "checkbox", id: "select-all", checked: all, "aria-label": t("select_all"),
        onchange: (event) => {
          for (const w of list) state.selected[event.target.checked ? "add" : "delete"](w.id);
          changed();
        } })),
      column("", "name", t("name")), column("", "state", t("column_state")), column("used", "used", t("column_used")),
      column("number", "size", t("files")), h("td", null))),
    h("tbody", null, list.map(row)));
}

/** The actions on the selected workspaces. */
export function bulk() {
  const chosen = [...state.selected].map((id) => state.workspaces.get(id)).filter(Boolean);
  if (chosen.length === 0) return null;
  const run = (name) => () => actOnAll(chosen, name);
  return h("div", { id: "bulk", role: "region", "aria-label": t("selected", { Count: chosen.length }), "data-key": "bulk" },
    h("p", { role: "status" }, t("selected", { Count: chosen.length })),
    ["sleep", "archive", "delete"].map((name) => h("button", { type: "button", "data-bulk": name,
      class: name === "delete" ? "danger" : null, onclick: run(name) }, nameOf(name))),
    h("button", { type: "button", class: "plain", onclick: () => { state.selected.clear(); changed(); } }, t("select_none")));
}

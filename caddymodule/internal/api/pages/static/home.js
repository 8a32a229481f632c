// The first view: the workspace to continue with, those that need attention, those awake, and the rest.
import { h, icon, lazy, show } from "/assets/dom.js";
import { date, locale, size, t } from "/assets/text.js";
import { card } from "/assets/card.js";
import { create } from "/assets/create.js";
import { find, groups } from "/assets/find.js";
import { view } from "/assets/router.js";
import { running, state } from "/assets/store.js";
import { bulk, table } from "/assets/table.js";
import { tools, wantsTable, wantsTools } from "/assets/tools.js";
import { purge, undelete } from "/assets/undo.js";

function head(first) {
  const text = state.limit === null ? "" : t("running_of", { Running: running().length, Limit: state.limit });
  return h("div", { class: "head", "data-key": "head" },
    h("h1", null, t("workspaces")), h("p", { id: "running", class: "hint", role: "status" }, text),
    h("button", { type: "button", id: "new", class: first ? null : "primary", onclick: create }, icon("plus"), t("new_workspace")));
}

function skeleton() {
  return h("ul", { class: "cards skeleton", "aria-hidden": "true", "data-key": "skeleton" },
    [1, 2, 3].map(() => h("li", null, h("article", null))));
}

function empty() {
  return h("div", { id: "empty", class: "empty", "data-key": "empty" }, icon("box"),
    h("p", null, t("empty")), h("button", { type: "button", class: "primary", onclick: create }, t("create_first")));
}

function cards(list) {
  return groups(list).map(({ name, items }) => h("section", { "data-key": name, "aria-labelledby": `group-${name}` },
    h("h2", { id: `group-${name}`, class: name === "continue" ? "hidden" : null }, t(`groups.${name}`)),
    h("ul", { class: "cards" }, items.map((w) => card(w, name === "continue")))));
}

function deleted() {
  if (state.deleted.length === 0) return null;
  const bytes = state.deleted.reduce((sum, w) => sum + (w.kept_bytes ?? 0), 0);
  return h("section", { id: "deleted", class: "panel", "aria-labelledby": "deleted-title", "data-key": "deleted" },
    h("h2", { id: "deleted-title", tabindex: "-1" }, t("deleted_title")),
    h("p", { class: "hint" }, t("deleted_text")),
    bytes > 0 && h("p", { class: "hint", id: "deleted-size" }, t("deleted_size", { Size: size(bytes) })),
    h("ul", { id: "deleted-list", class: "lines" }, state.deleted.map((w) =>
      lazy(`deleted-${w.id}`, [w, state.undoing.has(w.id), locale(), state.minute], () => deletedOne(w)))));
}

function deletedOne(w) {
  const possible = Date.parse(w.undelete_until) > Date.now();
  const until = possible ? t("until", { Time: date(w.undelete_until) }) : t("until_soon");
  return h("li", null, h("p", null, h("bdi", { class: "name" }, w.name),
    h("span", { class: "hint" }, state.undoing.has(w.id) ? t("undelete_waits") : until),
    w.kept_bytes > 0 && h("span", { class: "hint" }, t("size_only", { Size: size(w.kept_bytes) }))),
  h("div", { class: "actions" },
    h("button", { type: "button", disabled: state.undoing.has(w.id), onclick: () => undelete(w.id),
      "aria-label": t("action_label", { Action: t("undelete"), Name: w.name }) }, icon("undo"), t("undelete")),
    w.undelete_until && h("button", { type: "button", class: "danger", "data-purge": w.id, disabled: state.undoing.has(w.id), onclick: () => purge(w),
      "aria-label": t("action_label", { Action: t("purge"), Name: w.name }) }, t("purge"))));
}

view("home", (place) => {
  const all = [...state.workspaces.values()];
  const found = find(all);
  place.setAttribute("aria-busy", String(!state.loaded && state.connection !== "lost"));
  const list = all.length > 0 && wantsTable(all.length) ? [table(found)] : cards(found);
  show(place, head(state.loaded && all.length === 0),
    wantsTools(all.length) && tools(all.length),
    !state.loaded && all.length === 0 && state.connection !== "lost" && skeleton(),
    !state.loaded && all.length === 0 && state.connection === "lost" && h("p", { class: "empty", "data-key": "lost" }, t("lost")),
    state.loaded && all.length === 0 && empty(),
    h("div", { id: "workspaces", "data-key": "workspaces" },
      all.length > 0 && found.length === 0 ? h("p", { class: "empty", role: "status" }, t("nothing_found")) : list),
    bulk(), deleted());
});

// Tools for many workspaces: search, filter, order, and the look of the list.
import { choose, h, icon } from "/assets/dom.js";
import { t } from "/assets/text.js";
import { filters, sorts } from "/assets/find.js";
import { changed, remember, state } from "/assets/store.js";

const few = 6;
const many = 30;

let tabled = false; // there were many

/** Whether the list is a table: by choice, or because there are or were many when the page was opened. */
export function wantsTable(count) {
  tabled ||= count > many;
  return state.view ? state.view === "table" : tabled;
}

/** Whether to show the tools: there are many workspaces, a search is active, or the list is a table. */
export const wantsTools = (count) => count > few || Boolean(state.query || state.filter) || (count > 0 && wantsTable(count));

const look = (name, count) => h("button", { type: "button", class: "look", "aria-pressed": String((name === "table") === wantsTable(count)),
  "data-view": name, "aria-label": t(`looks.${name}`), onclick: () => {
    if (name === "cards") remember("reverse", ""); // only the table shows and reverses the order
    remember("view", name);
  } }, icon(name === "table" ? "rows" : "grid"));

/** The tools above the list. */
export const tools = (count) => h("div", { class: "tools", role: "search", "data-key": "tools" },
  h("label", { class: "search" }, icon("search"), h("span", { class: "hidden" }, t("search")),
    h("input", { id: "search", type: "search", placeholder: t("search"), autocomplete: "off", spellcheck: "false",
      oninput: (event) => { state.query = event.target.value; changed(); } })),
  choose("filter", t("filters.label"), state.filter, [["", t("filters.all")], ...filters.map((name) => [name, t(`filters.${name}`)])],
    (value) => { state.filter = value; changed(); }),
  choose("sort", t("sorts.label"), state.sort, sorts.map((name) => [name, t(`sorts.${name}`)]), (value) => {
    remember("reverse", "");
    remember("sort", value);
  }),
  h("div", { class: "looks", role: "group", "aria-label": t("looks.label") }, look("cards", count), look("table", count)));

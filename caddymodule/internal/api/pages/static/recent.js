// What happened to all workspaces lately, for administrators.
import { h } from "/assets/dom.js";
import { api, explain, t } from "/assets/text.js";
import { entry, says } from "/assets/history.js";
import { pageOf } from "/assets/router.js";
import { changed, signedOut } from "/assets/store.js";

const limit = 100;
let items = [];
let before = null;
let loaded = false;
let failure = null;

async function read(from) {
  try {
    const page = await api("GET", `admin/history?limit=${limit}${from ? `&before=${from}` : ""}`);
    items = from ? [...items, ...page.items] : page.items;
    before = page.next_before;
    failure = null;
  } catch (error) {
    if (!signedOut(error)) failure = error;
  }
  loaded = true;
  changed();
}

/** Reads the newest. */
export const loadRecent = () => read(null);

const about = (item) => h("p", null, h("a", { class: "name", href: pageOf(item.workspace_id) }, h("bdi", null, item.name)),
  " ", h("span", { class: "hint" }, t("owner", { Name: item.owner_username })));

/** The part of the administrator's view. */
export const recentOnes = () => [
  failure && h("p", { class: "notice", role: "alert", "data-key": "failure" }, explain(failure)),
  loaded && items.length === 0 && !failure && h("p", { class: "empty", "data-key": "none" }, t("history_none")),
  h("section", { class: "panel", hidden: items.length === 0, "aria-label": t("tabs.recent"), "data-key": "list" },
    h("ol", { id: "recent", class: "timeline" }, items.filter(says).map((item) => entry(item, about(item))))),
  before && h("p", { "data-key": "more" }, h("button", { type: "button", onclick: () => read(before) }, t("more"))),
];

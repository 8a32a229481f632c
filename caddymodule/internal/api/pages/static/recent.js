// The recent events of all workspaces, for administrators.
import { h } from "/assets/dom.js";
import { t } from "/assets/text.js";
import { entry, says } from "/assets/history.js";
import { paged } from "/assets/paged.js";
import { pageOf } from "/assets/router.js";

const list = paged("admin/history", { next: "next_before", from: "before", none: "history_none" });

/** Reads the newest events. */
export const loadRecent = () => list.read();

const about = (item) => h("p", null, h("a", { class: "name", href: pageOf(item.workspace_id) }, h("bdi", null, item.name)),
  " ", h("span", { class: "hint" }, t("owner", { Name: item.owner_username })));

/** The part of the administrator's view. */
export const recentOnes = () => [
  h("section", { class: "panel", hidden: list.items.length === 0, "aria-label": t("tabs.recent"), "data-key": "list" },
    h("ol", { id: "recent", class: "timeline" }, list.items.filter(says).map((item) => entry(item, about(item))))),
  list.end(),
];

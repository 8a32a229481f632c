// The audit: all entries for administrators, and those of the own account for its user.
import { choose, h } from "/assets/dom.js";
import { date, has, known, t } from "/assets/text.js";
import { paged, searchField } from "/assets/paged.js";
import { pageOf } from "/assets/router.js";
import { device } from "/assets/sessions.js";
import { user } from "/assets/store.js";

const all = paged("admin/audit");
const own = paged("me/audit", { none: "audit_none" });
const groups = ["workspace", "user", "token", "system", "api"];
const ages = { day: 1, week: 7, month: 30 }; // in days
let query = {};
let age = "";
let about = null; // the only workspace whose entries are shown

/** Reads the newest entries of the own account. */
export const loadOwnAudit = () => own.read({ limit: "10" });

const asked = () => ({ ...query, ...(about && { workspace: about.id }),
  ...(age && { since: new Date(Date.now() - ages[age] * 86_400_000).toISOString().replace(/\.\d+/, "") }) });

/** Reads the newest entries of all accounts. */
export const loadAudit = () => all.read(asked());

function ask(change) {
  query = Object.fromEntries(Object.entries({ ...query, ...change }).filter(([, value]) => value));
  loadAudit();
}

function only(workspace) {
  about = workspace;
  loadAudit();
}

const outcome = (entry) => entry.outcome !== "done" && h("span", { class: "tag off" }, t("audit_refused"));

// Actor, channel, program and origin. In the own account, the user's own actions need no name.
function origin({ actor, details: { client } }, mine) {
  const name = mine && actor.id === user.id ? null : actor.name ?? known("audit_kind.", actor.kind);
  const way = actor.token_name ? t("audit_token", { Name: actor.token_name }) : actor.through && known("audit_through.", actor.through.replace(" ", "_"));
  return [name, way, client && device(client), actor.address ?? actor.host].filter(Boolean).join(" · ");
}

const when = (time, by) => (by ? t("history_when", { Time: time, By: by }) : t("size_only", { Size: time }));

const concerned = ({ workspace }) => workspace && h("a", { href: pageOf(workspace.id) }, h("bdi", null, workspace.name ?? workspace.id.slice(0, 8)));

const other = ({ user: whom, actor, workspace }) => !workspace && whom && whom.id !== actor.id && h("bdi", null, whom.username ?? whom.id.slice(0, 8));

// The details of a change, in the API's words.
const details = (entry) => Object.entries(entry.details).map(([name, value]) =>
  `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");

// The action in words. Refused actions, and those on the own account, may have separate words.
function deed({ action, outcome: how }, mine) {
  const words = [how !== "done" && `audit_tried.${action}`, mine && `audit_own.${action}`, `audit.${action}`].find((key) => key && has(key));
  return words ? t(words) : action;
}

function line(entry, mine) {
  const what = details(entry);
  return h("li", { "data-key": String(entry.id), "data-action": entry.action },
    h("p", null, h("span", { class: "name" }, deed(entry, mine)),
      concerned(entry), !mine && other(entry), outcome(entry),
      h("span", { class: "hint" }, when(date(entry.at), origin(entry, mine))),
      !mine && what && h("span", { class: "hint" }, h("code", null, what))),
    !mine && entry.workspace && !about && h("button", { type: "button", class: "plain", onclick: () => only(entry.workspace),
      "aria-label": t("action_label", { Action: t("audit_only"), Name: entry.workspace.name ?? entry.workspace.id }) }, t("audit_only")));
}

/** The part of the account's page. */
export const ownAudit = () => h("section", { id: "own-audit", class: "panel", "data-key": "audit", "aria-labelledby": "own-audit-title" },
  h("h2", { id: "own-audit-title" }, t("audit_title")), h("p", { class: "hint" }, t(user.passwords ? "audit_text" : "audit_text_provider")),
  h("ul", { class: "lines" }, own.items.map((entry) => line(entry, true))), own.end());

/** The part of the administrator's view. */
export const auditOnes = () => [
  h("div", { class: "tools", role: "search", "data-key": "tools" },
    searchField("audit-user", t("audit_user"), (name) => ask({ user: name })),
    choose("audit-action", t("audit_action"), query.action ?? "",
      [["", t("filters.all")], ...groups.map((name) => [name, t(`audit_group.${name}`)])], (action) => ask({ action })),
    choose("audit-age", t("period.label"), age, [["", t("period.any")], ...Object.keys(ages).map((name) => [name, t(`period.${name}`)])],
      (value) => { age = value; loadAudit(); }),
    h("a", { id: "audit-download", class: "button", download: "audit.jsonl",
      href: `/api/v1/admin/audit?${new URLSearchParams({ ...asked(), format: "jsonl" })}` }, t("audit_download"))),
  about && h("p", { class: "row", "data-key": "about" }, t("audit_about", { Name: about.name ?? about.id }),
    h("button", { type: "button", id: "audit-every", class: "plain", onclick: () => only(null) }, t("audit_every"))),
  h("section", { class: "panel", hidden: all.items.length === 0, "aria-label": t("tabs.audit"), "data-key": "list" },
    h("ul", { id: "audit", class: "lines" }, all.items.map((entry) => line(entry, false)))),
  all.end(),
];

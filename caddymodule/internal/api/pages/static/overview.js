// The state of the installation, for administrators: workspaces, disk, archives and leaders; and collecting archives.
import { h } from "/assets/dom.js";
import { ago, api, explain, has, known, size, span, t } from "/assets/text.js";
import { confirmed } from "/assets/dialogs.js";
import { changed, signedOut } from "/assets/store.js";

let overview = null;
let failure = null;
let collection = null; // the result of the last collection
let unread = null; // the archives to read back
let sending = false;

/** Reads the overview. */
export async function loadOverview() {
  try {
    overview = await api("GET", "admin/overview");
    failure = null;
  } catch (error) {
    if (!signedOut(error)) failure = error;
  }
  changed();
}

async function command(name, dry, take) {
  sending = true;
  failure = null;
  changed();
  try {
    take(await api("POST", `admin/${name}`, { dry_run: dry }));
  } catch (error) {
    if (!signedOut(error)) failure = error;
  }
  sending = false;
  changed();
}

async function collect(dry) {
  if (!dry && !(await confirmed(t("gc_title"), t("gc_text", { Count: collection.report.due }), t("gc_now")))) return;
  command("gc", dry, (answer) => { collection = answer; });
}

const scrub = (dry) => command("scrub", dry, (answer) => {
  unread = dry ? answer : null;
  if (!dry) loadOverview();
});

const tile = (name, value, hint) => h("div", { class: "figure" }, h("dt", null, name), h("dd", null, value,
  hint && h("span", { class: "hint" }, hint)));

function counts(title, all, label) {
  const entries = Object.entries(all).sort(([, a], [, b]) => b - a);
  if (entries.length === 0) return null;
  return h("section", { class: "panel", "data-key": title }, h("h2", null, title), h("dl", { class: "counts" },
    entries.map(([word, count]) => [h("dt", null, label(word)), h("dd", null, String(count))])));
}

const named = (kind, word) => (has(kind + word) ? t(kind + word) : h("code", null, word));

function disk({ used_bytes: used, total_bytes: total }) {
  const percent = Math.round((100 * used) / total);
  return h("section", { class: "panel", "data-key": "disk" }, h("h2", null, t("disk")),
    h("meter", { min: "0", max: "100", high: "85", value: String(percent), "aria-label": t("disk") }),
    h("p", { class: "hint" }, t("disk_used", { Used: size(used), Total: size(total), Percent: percent })));
}

function archives(a) {
  return h("section", { class: "panel", "data-key": "archives" }, h("h2", null, t("parts.archives")),
    h("p", null, t("archives_are", { Count: a.current, Damaged: a.damaged, Unverified: a.unverified })),
    h("p", { class: "hint" }, t("gc_about")),
    collection && h("p", { id: "gc-report", role: "status" }, t(collection.dry_run ? "gc_would" : "gc_did", {
      Count: collection.dry_run ? collection.report.due : collection.report.deleted, Orphans: collection.report.orphans })),
    collection?.stopped && h("p", { class: "notice", lang: "en" }, collection.stopped), // the server's own message
    h("div", { class: "row" },
      h("button", { type: "button", id: "gc-look", disabled: sending, onclick: () => collect(true) }, t("gc_look")),
      collection?.dry_run && collection.report.due > 0 && !collection.stopped &&
        h("button", { type: "button", id: "gc-now", class: "danger", disabled: sending, onclick: () => collect(false) }, t("gc_now"))));
}

function scrubbed(a) {
  return h("section", { class: "panel", "data-key": "scrub" }, h("h2", null, t("scrub_title")),
    h("p", { class: "hint" }, t("scrub_about")),
    a.to_read > 0 && h("p", { id: "scrub-left" }, t("scrub_left", { Count: a.to_read, Size: size(a.to_read_bytes) })),
    unread && h("p", { id: "scrub-report", role: "status" }, t("scrub_would", { Count: unread.archives,
      Size: size(unread.size_bytes), Unread: unread.unread, Time: span(unread.seconds * 1000) }),
    unread.oldest_read_at && ` ${t("scrub_oldest", { Ago: ago(unread.oldest_read_at) })}`),
    h("div", { class: "row" },
      h("button", { type: "button", id: "scrub-look", disabled: sending, onclick: () => scrub(true) }, t("scrub_look")),
      unread?.archives > 0 && h("button", { type: "button", id: "scrub-now", disabled: sending, onclick: () => scrub(false) }, t("scrub_now"))));
}

const leaders = (list) => h("section", { class: "panel", "data-key": "leaders" }, h("h2", null, t("leaders")),
  h("ul", { class: "lines" }, list.map((l) => h("li", null, h("p", null, h("code", null, l.lock), h("bdi", null, l.node_id),
    h("span", { class: "hint" }, t("leads_since", { Ago: ago(l.since), Epoch: l.epoch })))))));

/** The part of the administrator's view. */
export function overviewOnes() {
  if (!overview) return failure ? h("p", { class: "notice", role: "alert" }, explain(failure)) : h("div", { class: "skeleton line" });
  const o = overview;
  return [
    failure && h("p", { class: "notice", role: "alert", "data-key": "failure" }, explain(failure)),
    h("dl", { class: "figures", "data-key": "figures" },
      tile(t("filters.running"), String(o.running), o.max_running_global && t("of_at_most", { Count: o.max_running_global })),
      o.dozing > 0 && tile(t("dozing"), String(o.dozing), o.max_dozing_global && t("of_at_most", { Count: o.max_dozing_global })),
      ["STANDBY", "ARCHIVED", "ERROR"].map((phase) => tile(known("phase.", phase), String(o.phases[phase] ?? 0))),
      o.deleted > 0 && tile(t("deleted_title"), String(o.deleted), o.deleted_bytes > 0 && t("size_only", { Size: size(o.deleted_bytes) })),
      tile(t("tabs.users"), String(o.users)), tile(t("homes"), t("size_only", { Size: size(o.home_bytes) })),
      tile(t("uptime"), t("size_only", { Size: span(o.uptime_seconds * 1000) }))),
    h("div", { class: "cards", "data-key": "parts" },
      o.disk && disk(o.disk), archives(o.archives), scrubbed(o.archives), leaders(o.leaders),
      counts(t("in_progress"), o.operations, (word) => known("operation.", word)),
      counts(t("waiting_now"), o.waiting, (word) => named("waits_for.", word)),
      counts(t("errors"), o.errors, (word) => named("failed_with.", word))),
  ];
}

// How long workspaces were awake, why, and the savings by sleeping: for the user's own, and for all.
import { choose, h, show } from "/assets/dom.js";
import { api, explain, locale, t } from "/assets/text.js";
import { searchField } from "/assets/paged.js";
import { onRoute, pageOf, view } from "/assets/router.js";
import { changed, remember, signedOut, state, user } from "/assets/store.js";

const causes = ["input", "requests", "work", "keep_awake", "idle"];
const phases = ["awake", "asleep", "archived"];
const periods = { week: 7, month: 30, quarter: 90 }; // in days, with today
const shownAtOnce = 50;

const day = (ago) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);

const said = (value) => t("size_only", { Size: value });
const number = (n, style) => said(new Intl.NumberFormat(locale(), style).format(n));
const hours = (n) => (n < 0.05 ? said("–") : number(n, { style: "unit", unit: "hour", unitDisplay: "short", maximumFractionDigits: n < 10 ? 1 : 0 }));
const percent = (share) => number(share, { style: "percent" });
const dayName = (text) => said(new Date(`${text}T00:00:00Z`).toLocaleDateString(locale(), { dateStyle: "medium", timeZone: "UTC" }));

// Every day of the requested time: days without workspaces have no hours.
function everyDay({ days, from, to }) {
  const none = { awake_by: Object.fromEntries(causes.map((name) => [`${name}_hours`, 0])),
    ...Object.fromEntries(phases.map((name) => [`${name}_hours`, 0])) };
  const known = new Map(days.map((d) => [d.day, d]));
  const all = [];
  for (let at = from.slice(0, 10); at < to.slice(0, 10); at = next(at)) all.push(known.get(at) ?? { day: at, ...none });
  return all;
}
const next = (text) => new Date(Date.parse(`${text}T00:00:00Z`) + 86_400_000).toISOString().slice(0, 10);

// The cost by the entered prices, as in `caddy codehub report`.
const prices = ["awake", "volume", "archive"];
const monthHours = 730;

function priceOf(name) {
  try { return Number(JSON.parse(state.prices || "{}")[name]) || 0; } catch { return 0; }
}
const priced = () => prices.some((name) => priceOf(name) > 0);
const money = (n) => number(n, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const cost = (u) => u.awake_hours * priceOf("awake") + (u.volume_gb_hours * priceOf("volume") + u.archive_gb_hours * priceOf("archive")) / monthHours;
const costAwake = (u) => existed(u) * priceOf("awake") + ((u.volume_gb_hours + u.archive_gb_hours) * priceOf("volume")) / monthHours;

const priceFields = (id) => h("details", { "data-key": "prices" }, h("summary", null, t("usage_prices")),
  h("p", { class: "hint" }, t("usage_prices_about")),
  h("div", { class: "fields" }, prices.map((name) => h("div", null, h("label", { for: `${id}-price-${name}` }, t(`usage_price.${name}`)),
    h("input", { id: `${id}-price-${name}`, type: "number", min: "0", step: "any", inputmode: "decimal", value: priceOf(name) || "",
      onchange: (event) => remember("prices", JSON.stringify({ ...Object.fromEntries(prices.map((one) => [one, priceOf(one)])), [name]: Number(event.target.value) || 0 })) })))));

const existed = (u) => u.awake_hours + u.asleep_hours + u.archived_hours + u.other_hours;
const byCause = (u) => causes.map((name) => [name, u.awake_by[`${name}_hours`]]);
const sum = (list, of) => list.reduce((all, one) => all + of(one), 0);

// The stacked bars of all days, in the order of the names. Each name is one path, as high as its hours.
function bars(days, names, of) {
  const top = Math.max(...days.map((d) => sum(names, (name) => of(d, name)))) || 1;
  const below = days.map(() => 100);
  const paths = names.map((name) => h("path", { class: `is-${name}`, d: days.map((d, i) => {
    const height = (100 * of(d, name)) / top;
    below[i] -= height;
    return height > 0 ? `M${i * 10 + 1} ${below[i].toFixed(2)}h8v${height.toFixed(2)}h-8z` : "";
  }).join("") }));
  return [h("p", { class: "hint" }, t("usage_top", { Hours: hours(top) })),
    h("svg", { viewBox: `0 0 ${days.length * 10} 100`, preserveAspectRatio: "none", "aria-hidden": "true" }, paths),
    h("p", { class: "ends hint" }, h("span", null, dayName(days[0].day)), days.length > 1 && h("span", null, dayName(days.at(-1).day)))];
}

// A part with bars, a legend with sums, and the same numbers as a table.
function plotted(name, days, names, of, label) {
  return h("section", { class: "panel days", "data-key": name, "aria-labelledby": name },
    h("h2", { id: name }, t(name)), bars(days, names, of),
    h("dl", { class: "counts legend" }, names.map((one) =>
      [h("dt", { class: `is-${one}` }, label(one)), h("dd", null, hours(sum(days, (d) => of(d, one))))])),
    h("details", null, h("summary", null, t("usage_as_table")),
      h("div", { class: "wide", tabindex: "0", role: "group", "aria-labelledby": name }, h("table", { class: "plain-table" },
        h("thead", null, h("tr", null, h("th", { scope: "col" }, t("usage_day")), names.map((one) => h("th", { scope: "col" }, label(one))))),
        h("tbody", null, days.map((d) => h("tr", null, h("th", { scope: "row" }, dayName(d.day)),
          names.map((one) => h("td", null, hours(of(d, one)))))))))));
}

const tile = (name, value, hint) => h("div", { class: "figure" }, h("dt", null, name), h("dd", null, value, hint && h("span", { class: "hint" }, hint)));

// The cause that kept it awake longest.
function longest(u) {
  const [name, most] = byCause(u).reduce((one, other) => (other[1] > one[1] ? other : one));
  return most > 0 ? t("usage_mostly", { Cause: t(`awake_by.${name}`), Hours: hours(most) }) : "";
}

function row(u, owners) {
  const name = u.name === null ? h("span", null, t("usage_gone", { ID: u.workspace_id.slice(0, 8) }))
    : h("a", { href: pageOf(u.workspace_id) }, h("bdi", null, u.name));
  return h("tr", { "data-key": u.workspace_id, "data-name": u.name },
    h("th", { scope: "row" }, name, owners && u.owner_username !== null && h("p", { class: "description" }, h("bdi", null, u.owner_username))),
    h("td", null, hours(u.awake_hours)), h("td", null, h("p", { class: "hint" }, longest(u))),
    h("td", { class: "used" }, hours(u.asleep_hours)), h("td", { class: "used" }, hours(u.archived_hours)),
    priced() && h("td", { class: "used" }, money(cost(u))));
}

/** A report: its API path, and whether it names owners. */
function report(path, owners) {
  let answer = null;
  let failure = null;
  let period = "month";
  let name = "";
  let shown = shownAtOnce;
  let question = 0;

  async function load() {
    const mine = ++question;
    const query = new URLSearchParams({ from: day(periods[period] - 1), to: day(-1), ...(name && { user: name }) });
    try {
      const got = await api("GET", `${path}?${query}`);
      if (mine !== question) return; // an older answer
      answer = got;
      failure = null;
    } catch (error) {
      if (mine !== question) return;
      if (!signedOut(error)) failure = error;
    }
    changed();
  }

  function numbers() {
    if (!answer) return failure ? null : h("div", { class: "skeleton line", "data-key": "waits" });
    if (answer.items.length === 0) return h("p", { class: "empty", role: "status", "data-key": "none" }, t("usage_none"));
    const { items } = answer;
    const days = answer.days.length > 0 ? everyDay(answer) : [];
    const [all, awake] = [sum(items, existed), sum(items, (u) => u.awake_hours)];
    return [
      h("dl", { class: "figures", "data-key": "figures" },
        tile(t("usage_saved"), percent(all > 0 ? 1 - awake / all : 0), t("usage_saved_of", { Hours: hours(all - awake), All: hours(all) })),
        phases.map((phase) => tile(t(`usage_phase.${phase}`), hours(sum(items, (u) => u[`${phase}_hours`])))),
        priced() && tile(t("usage_cost"), money(sum(items, cost)), t("usage_cost_of", { Always: money(sum(items, costAwake)) }))),
      h("p", { class: "hint", "data-key": "about" }, t("usage_about")),
      days.length > 0 && plotted("usage_causes", days, causes, (d, cause) => d.awake_by[`${cause}_hours`], (cause) => t(`awake_by.${cause}`)),
      days.length > 0 && plotted("usage_phases", days, phases, (d, phase) => d[`${phase}_hours`], (phase) => t(`usage_phase.${phase}`)),
      h("table", { class: "workspaces usage", "data-key": "table" }, h("caption", { class: "hidden" }, t("usage_longest")),
        h("thead", null, h("tr", null, [t("name"), t("usage_phase.awake"), t("usage_by"), t("usage_phase.asleep"), t("usage_phase.archived"), ...(priced() ? [t("usage_cost")] : [])]
          .map((text, i) => h("th", { scope: "col", class: i > 2 ? "used" : null }, text)))),
        h("tbody", null, items.slice(0, shown).map((u) => row(u, owners)))),
      items.length > shown && h("p", { "data-key": "more" }, h("button", { type: "button", class: "next-page",
        onclick: () => { shown += shownAtOnce; changed(); } }, t("more"))),
    ];
  }

  const draw = () => [
    h("div", { class: "tools", role: "search", "data-key": "tools" },
      owners && searchField("usage-user", t("usage_user"), (text) => { name = text; load(); }),
      choose(owners ? "usage-all-period" : "usage-period", t("period.label"), period,
        Object.keys(periods).map((one) => [one, t(`period.${one}`)]), (value) => { period = value; load(); })),
    failure && h("p", { class: "notice", role: "alert", "data-key": "failure" }, explain(failure)),
    numbers(),
    answer?.items.length > 0 && priceFields(owners ? "usage-all" : "usage"),
  ];
  return { load, draw };
}

const mine = report("report", false);
view("usage", (place) => show(place, h("div", { class: "head", "data-key": "head" }, h("h1", null, t("usage"))), mine.draw()));
onRoute(({ name }) => { if (name === "usage") mine.load(); });

/** The part of the administrator's view, and its reader. */
const all = user.admin ? report("admin/report", true) : {};
export const loadAllUsage = all.load;
export const allUsage = all.draw;

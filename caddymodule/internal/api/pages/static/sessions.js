// The user's sign-ins, and buttons to end them.
import { h } from "/assets/dom.js";
import { api, date, explain, t } from "/assets/text.js";
import { changed, signedOut } from "/assets/store.js";

let items = [];
let failure = null;

/** The common name of a program, from its User-Agent. */
export function device(agent) {
  const find = (names) => names.find(([mark]) => agent.includes(mark))?.[1];
  const browser = find([
    ["Edg/", "Edge"], ["OPR/", "Opera"], ["Firefox/", "Firefox"], ["Chrome/", "Chrome"], ["Safari/", "Safari"],
  ]);
  const system = find([
    ["Android", "Android"], ["iPhone", "iPhone"], ["iPad", "iPad"],
    ["Windows", "Windows"], ["Mac OS", "macOS"], ["Linux", "Linux"],
  ]);
  return browser ? [browser, system].filter(Boolean).join(" · ") : agent.split(/[ /]/)[0];
}

function entry(s) {
  const name = device(s.client);
  const used = t(s.address ? "session_used_from" : "session_used", { Time: date(s.last_used_at), Address: s.address });
  return h("li", { "data-key": s.id },
    h("p", null, name ? h("bdi", { class: "name" }, name) : h("span", { class: "name" }, t("session_unknown")),
      s.current && h("span", { class: "tag" }, t("session_current")),
      h("span", { class: "hint" }, used, " · ", t("session_since", { Time: date(s.created_at) }))),
    !s.current && h("button", { type: "button", onclick: () => end(`sessions/${s.id}`),
      "aria-label": t("action_label", { Action: t("sign_out"), Name: name || t("session_unknown") }) }, t("sign_out")));
}

/** The part of the account's page. */
export const sessions = () => h("section", { id: "sessions", class: "panel", "data-key": "sessions", "aria-labelledby": "sessions-title" },
  h("h2", { id: "sessions-title", tabindex: "-1" }, t("sessions_title")), h("p", { class: "hint" }, t("sessions_text")),
  failure && h("p", { id: "sessions-message", class: "notice", role: "alert" }, explain(failure)),
  h("ul", { id: "sessions-list", class: "lines" }, items.map(entry)),
  items.some((s) => !s.current) && h("button", { type: "button", id: "sessions-others", onclick: () => end("sessions") },
    t("sign_out_others")));

async function end(path) {
  failure = null;
  try {
    await api("DELETE", path);
  } catch (error) {
    failure = error;
  }
  await loadSessions();
  document.getElementById("sessions-title")?.focus();
}

/** Reads the list. */
export async function loadSessions() {
  try {
    items = (await api("GET", "sessions")).items;
  } catch (error) {
    if (!signedOut(error)) failure ??= error;
  }
  changed();
}

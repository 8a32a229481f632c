// Where the user is signed in, and a way to end that.
import { api, date, explain, onLanguage, t } from "/assets/text.js";

const section = document.getElementById("sessions");
const list = document.getElementById("sessions-list");
const others = document.getElementById("sessions-others");
const message = document.getElementById("sessions-message");
let items = [];
let failure = null;

// What people call the program, from what it calls itself.
function device(agent) {
  const find = (names) => names.find(([mark]) => agent.includes(mark))?.[1];
  const browser = find([
    ["Edg/", "Edge"], ["OPR/", "Opera"], ["Firefox/", "Firefox"], ["Chrome/", "Chrome"], ["Safari/", "Safari"],
  ]);
  const system = find([
    ["Android", "Android"], ["iPhone", "iPhone"], ["iPad", "iPad"],
    ["Windows", "Windows"], ["Mac OS", "macOS"], ["Linux", "Linux"],
  ]);
  return browser ? [browser, system].filter(Boolean).join(" · ") : agent.split(/[ /]/)[0] || t("session_unknown");
}

function show() {
  message.hidden = !failure;
  message.textContent = failure ? explain(failure) : "";
  list.replaceChildren(...items.map(entry));
  others.hidden = items.every((s) => s.current);
}

function entry(s) {
  const li = document.getElementById("session-item").content.firstElementChild.cloneNode(true);
  const name = device(s.client);
  li.querySelector("strong").textContent = name;
  li.querySelector(".current").textContent = s.current ? `(${t("session_current")})` : "";
  li.querySelector(".used").textContent = t(s.address ? "session_used_from" : "session_used", {
    Time: date(s.last_used_at), Address: s.address,
  });
  li.querySelector(".since").textContent = t("session_since", { Time: date(s.created_at) });
  const button = li.querySelector("button");
  button.textContent = t("sign_out");
  button.setAttribute("aria-label", t("action_label", { Action: t("sign_out"), Name: name }));
  button.hidden = s.current; // the button at the top of the page does that
  button.addEventListener("click", () => end(`sessions/${s.id}`));
  return li;
}

async function end(path) {
  failure = null;
  try {
    await api("DELETE", path);
  } catch (error) {
    failure = error;
  }
  await load();
  section.querySelector("summary").focus();
}

async function load() {
  try {
    items = (await api("GET", "sessions")).items;
  } catch (error) {
    failure ??= error;
  }
  show();
}

/** Shows the list whenever it is opened. */
export function watchSessions() {
  others.addEventListener("click", () => end("sessions"));
  section.addEventListener("toggle", () => { if (section.open) { failure = null; load(); } });
  onLanguage(show);
}

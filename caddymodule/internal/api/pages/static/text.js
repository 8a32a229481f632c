// The texts in the language of the page, and the language switch. The texts come from the server (package words).
import { languages, texts } from "/assets/words.js";

const listeners = [];
const brand = document.querySelector("meta[name=application-name]").content;
let language = document.documentElement.lang;

/** Whether a text with that key exists. */
export const has = (key) => key in texts[language];

/** The text with that key in the chosen language. The values are those of its variables; Count decides the plural. */
export function t(key, values = {}) {
  let text = texts[language][key];
  if (typeof text === "object") text = text[new Intl.PluralRules(language).select(values.Count)] ?? text.other;
  return text.replace(/\{\{\.(\w+)\}\}/g, (_, name) => (name === "Brand" ? brand : values[name]));
}

/** The text for a word of the API, such as a phase; an unknown word of a newer server is shown unchanged. */
export const known = (kind, word) => (has(kind + word) ? t(kind + word) : word);

/** The chosen language's tag, for dates and for the texts in answers of the API. */
export const locale = () => language;

/** A time as people write it, without the date when it is today. */
export function date(time) {
  const at = new Date(time);
  const today = at.toDateString() === new Date().toDateString();
  return at.toLocaleString(language, today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

/** How long ago a time was. */
export function ago(time) {
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  const format = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (seconds >= length) return format.format(-Math.round(seconds / length), unit);
  }
  return t("just_now");
}

/** A remaining time, in milliseconds, as people say it: whole minutes, hours from two on. */
export function span(milliseconds) {
  const minutes = Math.max(1, Math.ceil(milliseconds / 60_000));
  const [n, unit] = minutes < 120 ? [minutes, "minute"] : [Math.round(minutes / 60), "hour"];
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "short" }).format(n);
}

/** A number of bytes as people write it. */
export function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const i = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return `${new Intl.NumberFormat(language, { maximumFractionDigits: 1 }).format(bytes / 1000 ** i)} ${units[i]}`;
}

/** The same for whole numbers of mebibytes, such as memory and limits. */
export function binary(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const i = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  return `${new Intl.NumberFormat(language, { maximumFractionDigits: 1 }).format(bytes / 1024 ** i)} ${units[i]}`;
}

/** Calls f now and whenever the language changes. */
export function onLanguage(f) {
  listeners.push(f);
  f();
}

/** A duration, in seconds. */
export const duration = (n) =>
  n < 60 ? t("seconds", { Seconds: n }) : t("minutes", { Minutes: Math.floor(n / 60), Seconds: n % 60 });

/** A measured duration, in milliseconds: tenths of a second below ten seconds, minutes from ten on. */
export function brief(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds >= 600) return span(milliseconds);
  if (seconds >= 60) return duration(Math.round(seconds));
  return new Intl.NumberFormat(language, { style: "unit", unit: "second", unitDisplay: "short", maximumFractionDigits: seconds < 10 ? 1 : 0 }).format(seconds);
}

/** The server's text about a failed request: a problem has texts in every language. */
export function explain({ problem, status }) {
  const help = problem?.help?.[language] ?? (status ? t("unexpected", { Status: status }) : t("unreachable"));
  const running = (problem?.running ?? []).map((w) => w.name).join(", ");
  return running ? `${help} ${t("running_names", { Names: running })}` : help;
}

/** A failed request: status is 0 when the server did not answer. */
export class Failure extends Error {
  constructor(status, problem) {
    super(problem?.title ?? `status ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

// When a laptop changes its network, requests end without an answer. A read
// is then retried after these pauses, in milliseconds; whether to repeat a change
// is up to the person.
const pauses = [200, 1000, 3000];

/** Sends a request to the API; returns its answer or throws a Failure. */
export const api = async (method, path, body, headers) => (await exchange(method, path, body, headers)).data;

/** Like api; returns the answer as data, and the entity tag that it has. */
export async function exchange(method, path, body, headers) {
  const init = { method, headers: { ...headers }, credentials: "same-origin" };
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  for (const pause of method === "GET" ? pauses : []) {
    try {
      return await send(path, init);
    } catch (failure) {
      if (failure.status) throw failure;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  return send(path, init);
}

async function send(path, init) {
  const unanswered = () => { throw new Failure(0); };
  const answer = await fetch(`/api/v1/${path}`, init).catch(unanswered);
  const text = await answer.text().catch(init.method === "GET" ? unanswered : () => "");
  let data;
  try { data = text ? JSON.parse(text) : undefined; } catch { /* from a proxy in between */ }
  if (!answer.ok) throw new Failure(answer.status, data);
  return { data, etag: answer.headers.get("ETag") };
}

/** A unique key: a request that is repeated with it takes effect once. */
export const requestKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((n) => n.toString(16).padStart(2, "0")).join("");

const choice = document.getElementById("language");
choice.append(...languages.map(({ code, name }) => Object.assign(document.createElement("option"), { value: code, lang: code, textContent: name })));

function apply() {
  document.documentElement.lang = choice.value = language;
  for (const el of document.querySelectorAll("[data-text]")) el.textContent = t(el.dataset.text);
  for (const f of listeners) f();
}

choice.addEventListener("change", () => {
  language = choice.value;
  // The pages of the gateway read and write the same cookie.
  const secure = location.protocol === "https:" ? ";secure" : "";
  document.cookie = `codehub_lang=${language};path=/;max-age=31536000;samesite=lax${secure}`;
  apply();
});
apply();

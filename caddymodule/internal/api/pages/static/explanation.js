// The explanation of a workspace: first its state, the reason and the next step.
import { h } from "/assets/dom.js";
import { date, known, locale, t } from "/assets/text.js";
import { serverSaid } from "/assets/card.js";
import { busyText } from "/assets/status.js";

// A sentence in the user's language, with times in the user's time zone.
function said(statement) {
  let text = statement.text[locale()];
  for (const time of [statement.since, statement.at].filter(Boolean)) {
    const utc = new Date(time).toISOString();
    text = text.replaceAll(`${utc.slice(0, 10)} ${utc.slice(11, 19)} UTC`, date(time));
  }
  return text;
}

// The statements of the summary; next is empty if the user can do something.
function chosen(e, w) {
  const error = e.errors.find((one) => one.current);
  const fails = e.waiting ?? error ?? e.archive.find((a) => a.code === "ArchiveDamaged");
  const keeps = e.next.find((next) => ["KeptAwake", "StartedAhead", w.busy?.reason].includes(next.code));
  const remedy = (e.waiting ?? error)?.remedy[locale()];
  return { error, reason: fails ?? keeps ?? e.asked, remedy, next: remedy ? null : e.next.find((one) => one !== keeps) };
}

function summary(e, w, { error, reason, remedy, next }) {
  const isError = error && e.why.code === error.code; // then the sentence about its state is already the reason
  return [[t("state"), isError ? known("phase.", e.phase) : said(e.why)], [t("reason"), reason && (reason.code === w.busy?.reason ? busyText(w.busy) : said(reason))],
    [t("next_step"), remedy ?? (next && said(next))]];
}

// The other statements, with their topics.
function rest(e, { error, reason, next }) {
  const about = [...e.next.map((one) => ["next", one]), ["files", e.home], ...e.archive.map((one) => ["archive_state", one]), ["asked", e.asked],
    ...e.errors.map((one) => [one === error ? "error_now" : "error_before", one])];
  return about.filter(([, one]) => one && one !== reason && one !== next && !(one === error && one.code === e.why.code))
    .map(([term, one]) => [t(term), said(one)]);
}

// The messages of servers, each once.
function details(e) {
  const all = [e.why, e.waiting, ...e.archive, e.asked, ...e.errors].map((one) => one?.detail).filter(Boolean);
  return [...new Set(all)].join("\n");
}

function list(lines) {
  let before = "";
  return h("dl", null, lines.filter(([, sentence]) => sentence).map(([term, sentence]) => {
    const nodes = [term !== before && h("dt", null, term), h("dd", null, sentence)];
    before = term;
    return nodes;
  }));
}

function draw(e, w) {
  const main = chosen(e, w);
  const further = rest(e, main);
  return [h("div", { class: "summary", "aria-live": "polite" }, list(summary(e, w, main))),
    further.length > 0 && h("details", { class: "further" }, h("summary", null, t("more_details")), list(further)),
    serverSaid(details(e))];
}

/** The part of a workspace's page: its API path and its drawing. */
export const explanation = { path: "explain", draw };

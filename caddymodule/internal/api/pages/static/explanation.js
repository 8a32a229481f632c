// What a card's details say: why the workspace is as it is, and what comes next.
import { api, date, explain, locale, t } from "/assets/text.js";

const asked = new Map(); // id → the number of the last question: an older answer is dropped
let questions = 0;

/** Fills the details of a workspace with its explanation. */
export async function explanation(id, details) {
  const question = ++questions;
  asked.set(id, question);
  let lines;
  try {
    lines = linesOf(await api("GET", `workspaces/${id}/explain`));
  } catch (error) {
    lines = [["", explain(error)]];
  }
  if (asked.get(id) === question && details.open) show(details.querySelector("dl"), lines);
}

function linesOf(e) {
  const lines = [[t("why"), said(e.why), e.why.detail]];
  if (e.waiting) lines.push([t("waits"), said(e.waiting), e.waiting.detail]);
  if (e.home) lines.push([t("files"), said(e.home)]);
  for (const next of e.next) lines.push([t("next"), said(next)]);
  for (const a of e.archive) lines.push([t("archive_state"), said(a), a.detail]);
  if (e.asked) lines.push([t("asked"), said(e.asked), e.asked.detail]);
  for (const error of e.errors) {
    const isWhy = error.current && error.code === e.why.code; // said above
    if (!isWhy) lines.push([error.current ? t("error_now") : t("error_before"), said(error), error.detail]);
    if (error.current) lines.push([t("remedy"), error.remedy[locale()]]);
  }
  return lines;
}

// A sentence in the user's language, with its times as the user's clock shows them.
function said(statement) {
  let text = statement.text[locale()];
  for (const time of [statement.since, statement.at].filter(Boolean)) {
    const utc = new Date(time).toISOString();
    text = text.replaceAll(`${utc.slice(0, 10)} ${utc.slice(11, 19)} UTC`, date(time));
  }
  return text;
}

// Lines that say the same as before stay, so that screen readers read changes only.
function show(dl, lines) {
  const text = JSON.stringify(lines);
  if (dl.dataset.lines === text) return;
  dl.dataset.lines = text;
  let before = "";
  dl.replaceChildren(...lines.flatMap(([term, sentence, detail]) => {
    const nodes = [];
    if (term && term !== before) nodes.push(node("dt", term));
    before = term;
    nodes.push(node("dd", sentence));
    if (detail) nodes.push(Object.assign(node("dd", detail), { lang: "en" })); // the server's own words
    return nodes;
  }));
}

function node(name, text) {
  return Object.assign(document.createElement(name), { textContent: text });
}

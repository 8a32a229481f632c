// Why a workspace is as it is, and what comes next.
import { h } from "/assets/dom.js";
import { date, locale, t } from "/assets/text.js";

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

function draw(data) {
  let before = "";
  return h("dl", { "aria-live": "polite" }, linesOf(data).flatMap(([term, sentence, detail]) => {
    const nodes = [term && term !== before && h("dt", null, term), h("dd", null, sentence),
      detail && h("dd", { lang: "en" }, detail)]; // the server's own words
    before = term;
    return nodes;
  }));
}

/** The part of a workspace's page: where it is read, and how it is drawn. */
export const explanation = { path: "explain", draw };

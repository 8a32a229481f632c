// One workspace in the list: what it is, how it is, and the one thing that people most likely want.
import { h, icon, lazy } from "/assets/dom.js";
import { explain, locale, t } from "/assets/text.js";
import { act, blocked, nameOf, offered, open } from "/assets/actions.js";
import { imageIcon } from "/assets/images.js";
import { menu } from "/assets/menu.js";
import { nameOr } from "/assets/rename.js";
import { pageOf } from "/assets/router.js";
import { activityText, awakeText, dozes, failureText, homeText, imageMayHelp, lostArchive, needsCare, pullFailed, serverText, stateText, usedText, waitingText } from "/assets/status.js";
import { state } from "/assets/store.js";

/** What a workspace is in attributes: for styles, and for whoever looks for it. */
export const marks = (w) => ({
  "data-workspace": w.id, "data-phase": w.phase, "data-operation": w.operation, "data-desired": w.desired_state,
  "data-name": w.name, "data-pending": state.pending.get(w.id) ?? null, "data-care": needsCare(w), "data-dozing": dozes(w),
});

/** What is done with it, or its phase, with a dot of its colour. */
export const phase = (w) => h("p", { class: "phase" }, stateText(w));

// What helps a workspace, the best first, by the names of actions; "open" is a link.
function helpful(w) {
  const can = offered(w);
  if (w.phase === "DELETING" || w.phase === "DELETED") return [];
  const failed = w.phase === "ERROR";
  if (pullFailed(w)) return failed ? ["edit", "retry"] : ["retry", "edit"]; // it may be for now, or for good
  if (failed && !w.error_reason) return [can.includes("recover") ? "recover" : "details"]; // it is looked at anew
  if (failed) return [can.includes("recover") ? "recover" : "report", ...(imageMayHelp(w) ? ["edit"] : [])];
  return lostArchive(w) ? ["details", ...can.filter((name) => name === "report")] : ["open"];
}

/** The one thing that stands out, what may help beside it where there is room, and the menu with the rest. */
export function doings(w, without = [], most = 2) {
  const named = helpful(w).filter((name) => !without.includes(name)).slice(0, most);
  return h("div", { class: "actions" },
    named.map((name, i) => (name === "open"
      ? h("a", { class: "open button primary", target: "_blank", rel: "noopener", href: w.url,
        "aria-label": t("open_label", { Name: w.name }), onclick: (event) => open(w, event) }, t("open"))
      : h("button", { type: "button", class: i === 0 ? "primary" : null, "data-action": name, disabled: blocked(w, name),
        "aria-label": t("action_label", { Action: nameOf(name, w), Name: w.name }), onclick: () => act(w, name) }, nameOf(name, w)))),
    menu(w, [...named, ...without]));
}

// The bar of a step whose size is unknown moves without saying how far.
function progress(w) {
  if (!w.progress) return null;
  return h("div", { class: "progress" },
    h("progress", { max: "100", value: w.progress.percent, "aria-label": t("progress_label", { Name: w.name }) }),
    h("p", null, w.progress.text[locale()]));
}

const line = (name, text) => text && h("p", { class: name }, text);

/** How it is now, in a few words: what is done, and how far. */
export const activity = (w) => [line("activity", activityText(w)), progress(w)];

/** The failed request that concerns it. */
export function refusal(w) {
  const failure = state.failures.get(w.id);
  return failure && h("p", { class: "notice", role: "alert" }, explain(failure));
}

/** What servers and programs said, in their own words, for administrators. */
export const serverSaid = (text) => text && h("details", { class: "said" }, h("summary", null, t("server_details")), h("p", { class: "hint", lang: "en" }, text));

// How it is now: what is done, what it waits for, when it sleeps, what failed.
const condition = (w) => [
  activity(w), line("waiting", waitingText(w)), line("awake", awakeText(w)), line("failure", failureText(w)), serverSaid(serverText(w)), refusal(w),
];

/** What a card depends on besides the workspace. */
export const memo = (w) => [
  w, state.pending.get(w.id), state.failures.get(w.id), state.menu === w.id, locale(), state.minute, state.images,
  state.renaming === w.id, w.operation === "NONE" ? 0 : Math.floor(Date.now() / 1000), state.selected.has(w.id),
];

/** What marks a favourite. */
export const star = (w) => w.favourite && h("span", { class: "star", role: "img", "aria-label": t("groups.favourite") }, icon("star"));

/** A card. The one to continue with has more room. */
export const card = (w, first) => lazy(w.id, [first, ...memo(w)], () =>
  h("li", { class: first ? "continue" : null },
    h("article", { ...marks(w), "aria-labelledby": `name-${w.id}` },
      first && h("p", { class: "eyebrow" }, t("continue")),
      h("div", { class: "card-head" },
        h("span", { class: "tile" }, icon(imageIcon(w.image_ref))),
        h("div", { class: "title" },
          h("h3", null, nameOr(w, h("a", { href: pageOf(w.id), id: `name-${w.id}` }, star(w), h("bdi", null, w.name)))),
          w.description && h("p", { class: "description" }, w.description)),
        phase(w)),
      condition(w),
      h("div", { class: "card-foot" },
        h("p", { class: "meta" }, h("span", { class: "used" }, usedText(w)), h("span", { class: "home" }, homeText(w))),
        doings(w)))));

// A workspace in the list: its name, its state and the most likely action.
import { h, icon, lazy } from "/assets/dom.js";
import { explain, locale, t } from "/assets/text.js";
import { act, blocked, nameOf, offered, open } from "/assets/actions.js";
import { imageIcon } from "/assets/images.js";
import { menu } from "/assets/menu.js";
import { nameOr } from "/assets/rename.js";
import { pageOf } from "/assets/router.js";
import { activityText, awakeText, dozes, failureText, homeText, imageMayHelp, lostArchive, needsCare, pullFailed, serverText, stateText, usedText, waitingText } from "/assets/status.js";
import { state } from "/assets/store.js";

/** The state of a workspace as attributes, for styles and tests. */
export const marks = (w) => ({
  "data-workspace": w.id, "data-phase": w.phase, "data-operation": w.operation, "data-desired": w.desired_state,
  "data-name": w.name, "data-pending": state.pending.get(w.id) ?? null, "data-care": needsCare(w), "data-dozing": dozes(w),
});

/** Its operation or its phase, with a dot of the matching colour. */
export const phase = (w) => h("p", { class: "phase" }, stateText(w));

// The names of the actions that help a workspace, best first; "open" is a link.
function helpful(w) {
  const can = offered(w);
  if (w.phase === "DELETING" || w.phase === "DELETED") return [];
  const failed = w.phase === "ERROR";
  if (pullFailed(w)) return failed ? ["edit", "retry"] : ["retry", "edit"]; // the failure may be temporary or permanent
  if (failed && !w.error_reason) return [can.includes("recover") ? "recover" : "details"]; // it will be observed again
  if (failed) return [can.includes("recover") ? "recover" : "report", ...(imageMayHelp(w) ? ["edit"] : [])];
  return lostArchive(w) ? ["details", ...can.filter((name) => name === "report")] : ["open"];
}

/** The main action, further helpful ones where there is space, and the menu with the rest. */
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

// The bar of a step with an unknown size moves without showing a percentage.
function progress(w) {
  if (!w.progress) return null;
  return h("div", { class: "progress" },
    h("progress", { max: "100", value: w.progress.percent, "aria-label": t("progress_label", { Name: w.name }) }),
    h("p", null, w.progress.text[locale()]));
}

const line = (name, text) => text && h("p", { class: name }, text);

/** Its current state in a few words: the operation and its progress. */
export const activity = (w) => [line("activity", activityText(w)), progress(w)];

/** The failed request that concerns it. */
export function refusal(w) {
  const failure = state.failures.get(w.id);
  return failure && h("p", { class: "notice", role: "alert" }, explain(failure));
}

/** The original messages of servers and programs, for administrators. */
export const serverSaid = (text) => text && h("details", { class: "said" }, h("summary", null, t("server_details")), h("p", { class: "hint", lang: "en" }, text));

// Its current state: the operation, the reason of a wait, the time of its sleep, failures.
const condition = (w) => [
  activity(w), line("waiting", waitingText(w)), line("awake", awakeText(w)), line("failure", failureText(w)), serverSaid(serverText(w)), refusal(w),
];

/** The values that a card depends on besides the workspace. */
export const memo = (w) => [
  w, state.pending.get(w.id), state.failures.get(w.id), state.menu === w.id, locale(), state.minute, state.images,
  state.renaming === w.id, w.operation === "NONE" ? 0 : Math.floor(Date.now() / 1000), state.selected.has(w.id),
];

/** What marks a favourite. */
export const star = (w) => w.favourite && h("span", { class: "star", role: "img", "aria-label": t("groups.favourite") }, icon("star"));

/** A card. The one to continue with is larger. */
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

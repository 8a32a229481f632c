// One workspace in the list: what it is, how it is, and the one thing that people most likely want.
import { h, icon, lazy } from "/assets/dom.js";
import { explain, locale, t } from "/assets/text.js";
import { act, blocked, nameOf, offered, open } from "/assets/actions.js";
import { imageIcon } from "/assets/images.js";
import { menu } from "/assets/menu.js";
import { nameOr } from "/assets/rename.js";
import { pageOf } from "/assets/router.js";
import { activityText, awakeText, dozes, failureText, homeText, imageMayHelp, needsCare, stateText, usedText, waitingText } from "/assets/status.js";
import { state } from "/assets/store.js";

/** What a workspace is in attributes: for styles, and for whoever looks for it. */
export const marks = (w) => ({
  "data-workspace": w.id, "data-phase": w.phase, "data-operation": w.operation, "data-desired": w.desired_state,
  "data-name": w.name, "data-pending": state.pending.get(w.id) ?? null, "data-care": needsCare(w), "data-dozing": dozes(w),
});

/** What is done with it, or its phase, with a dot of its colour. */
export const phase = (w) => h("p", { class: "phase" }, stateText(w));

/** The one thing that stands out, by the name of its action; empty for none. */
function primaryOf(w) {
  if (w.phase === "DELETING" || w.phase === "DELETED") return "";
  if (w.phase !== "ERROR") return "open";
  if (offered(w).includes("recover")) return "recover";
  return imageMayHelp(w) ? "edit" : "details";
}

/** The button for the one thing, and the menu with the rest. */
export function doings(w, without = []) {
  const primary = without.includes(primaryOf(w)) ? "" : primaryOf(w);
  const again = !without.includes("retry") && offered(w).includes("retry");
  return h("div", { class: "actions" },
    primary === "open" && h("a", { class: "open button primary", target: "_blank", rel: "noopener", href: w.url,
      "aria-label": t("open_label", { Name: w.name }), onclick: (event) => open(w, event) }, t("open")),
    primary && primary !== "open" && h("button", { type: "button", class: "primary", "data-action": primary,
      disabled: blocked(w, primary), "aria-label": t("action_label", { Action: nameOf(primary, w), Name: w.name }),
      onclick: () => act(w, primary) }, nameOf(primary, w)),
    again && h("button", { type: "button", "data-action": "retry", disabled: blocked(w, "retry"),
      "aria-label": t("action_label", { Action: nameOf("retry", w), Name: w.name }), onclick: () => act(w, "retry") }, nameOf("retry", w)),
    menu(w, [primary, again && "retry", ...without]));
}

// The bar of a step whose size is unknown moves without saying how far.
function progress(w) {
  if (!w.progress) return null;
  return h("div", { class: "progress" },
    h("progress", { max: "100", value: w.progress.percent, "aria-label": t("progress_label", { Name: w.name }) }),
    h("p", null, w.progress.text[locale()]));
}

const line = (name, text) => text && h("p", { class: name }, text);

/** How it is now: what is done, what it waits for, when it sleeps, what failed. */
export function condition(w) {
  const failure = state.failures.get(w.id);
  return [
    line("activity", activityText(w)), progress(w), line("waiting", waitingText(w)), line("awake", awakeText(w)),
    line("failure", failureText(w)), failure && h("p", { class: "notice", role: "alert" }, explain(failure)),
  ];
}

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

// Short messages at the edge of the page, each with at most one action.
import { h, icon, show } from "/assets/dom.js";
import { explain, t } from "/assets/text.js";
import { onChange } from "/assets/store.js";

const place = document.getElementById("toasts");
const shownFor = 12_000; // milliseconds
let toasts = [];
let last = 0;

/**
 * Shows a message while it applies. say and act.say return the texts whenever they are drawn; act.run runs the offered
 * action.
 */
export function toast(say, act, kind = "done", holds = () => true) {
  const one = { key: String(++last), say, act, kind, holds, until: Date.now() + shownFor };
  toasts = [...toasts.slice(-2), one];
  draw();
}

/** Shows a failure and its cause. */
export const failed = (what, error) => toast(() => `${what}: ${explain(error)}`, null, "failed");

function close(one) {
  const hadFocus = place.contains(document.activeElement);
  toasts = toasts.filter((other) => other !== one);
  draw();
  if (hadFocus) document.getElementById("main").focus();
}

function draw() {
  toasts = toasts.filter((one) => one.holds());
  show(place, toasts.map((one) => h("div", { class: `toast ${one.kind}`, "data-key": one.key },
    h("p", null, one.say()),
    one.act && h("button", { type: "button", class: "plain", onclick: () => { close(one); one.act.run(); } }, one.act.say()),
    h("button", { type: "button", class: "plain small", "aria-label": t("dismiss"), onclick: () => close(one) },
      icon("close")))));
}

// A message under the pointer, or with the focus, stays.
setInterval(() => {
  if (place.matches(":hover, :focus-within")) return;
  const stay = toasts.filter((one) => one.until > Date.now());
  if (stay.length === toasts.length) return;
  toasts = stay;
  draw();
}, 1_000);
onChange(draw);

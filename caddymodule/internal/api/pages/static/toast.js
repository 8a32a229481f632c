// Short messages at the edge of the page, each with at most one thing to do.
import { h, icon, show } from "/assets/dom.js";
import { explain, t } from "/assets/text.js";
import { onChange } from "/assets/store.js";

const place = document.getElementById("toasts");
const shownFor = 12_000; // milliseconds
let toasts = [];
let last = 0;

/**
 * Says something for as long as it holds. say and act.say are asked for the text whenever it is drawn; act.run does what is
 * offered.
 */
export function toast(say, act, kind = "done", holds = () => true) {
  const one = { key: String(++last), say, act, kind, holds, until: Date.now() + shownFor };
  toasts = [...toasts.slice(-2), one];
  draw();
}

/** Says that something has failed, and why. */
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

// One at which a person points, or that has the focus, stays.
setInterval(() => {
  if (place.matches(":hover, :focus-within")) return;
  const stay = toasts.filter((one) => one.until > Date.now());
  if (stay.length === toasts.length) return;
  toasts = stay;
  draw();
}, 1_000);
onChange(draw);

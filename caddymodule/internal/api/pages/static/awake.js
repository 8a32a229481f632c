// What a card says of a workspace that is not used, and the choice to keep it awake.
import { api, date, has, locale, t } from "/assets/text.js";

/** Why it stays awake or when it goes to sleep, one line each; empty while that is far. */
export function awakeText(w) {
  if (w.phase !== "RUNNING") return "";
  const lines = [];
  const kept = w.keep_awake_until && Date.parse(w.keep_awake_until) > Date.now();
  if (kept) lines.push(t("kept_awake", { Time: date(w.keep_awake_until) }));
  if (w.busy) lines.push(busyText(w.busy));
  if (w.sleep_at) lines.push(t("sleeps_at", { Time: date(w.sleep_at) }));
  if (w.page_activity === "traffic") lines.push(t("traffic"));
  return lines.join("\n");
}

// Why it is awake: a program may say so without saying what it does.
function busyText(busy) {
  if (busy.reason === "BusyFile" && !busy.detail) return t("busy.silent");
  const key = `busy.${busy.reason}`;
  return t(has(key) ? key : "busy.unknown", { What: busy.detail ?? "" });
}

/** Fills the choice of a card, and shows it while the workspace runs. */
export function showChoice(select, w, disabled) {
  const kept = Boolean(w.keep_awake_until) && Date.parse(w.keep_awake_until) > Date.now();
  const key = `${locale()} ${kept}`;
  if (select.dataset.key !== key) {
    select.dataset.key = key;
    const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
    const hours = [1, 4, 8].map((n) => option(String(n), t("keep_awake_hours", { Count: n })));
    select.replaceChildren(option("", t("keep_awake")), ...hours);
    if (kept) select.append(option("0", t("keep_awake_end")));
    select.value = "";
  }
  select.setAttribute("aria-label", t("action_label", { Action: t("keep_awake"), Name: w.name }));
  select.hidden = w.phase !== "RUNNING" || w.desired_state !== "RUNNING";
  select.disabled = disabled;
}

/** Asks the server to keep the workspace awake for as long as was chosen. */
export function keepAwake(id, hours) {
  return api("POST", `workspaces/${id}/keep-awake`, { hours: Number(hours) });
}

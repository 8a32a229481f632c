// What a card says of a workspace that nobody uses, and the choice to keep it awake.
import { api, date, locale, t } from "/assets/text.js";

/** Why it stays awake or when it goes to sleep, one line each; empty while that is far. */
export function awakeText(w) {
  if (w.phase !== "RUNNING") return "";
  const lines = [];
  if (w.keep_awake_until && Date.parse(w.keep_awake_until) > Date.now()) lines.push(t.kept_awake(date(w.keep_awake_until)));
  if (w.busy) lines.push((t.busy[w.busy.reason] ?? t.busy.other)(w.busy.detail ?? ""));
  if (w.sleep_at) lines.push(t.sleeps_at(date(w.sleep_at)));
  if (w.page_activity === "traffic") lines.push(t.traffic);
  return lines.join("\n");
}

/** Fills the choice of a card, and shows it while the workspace runs. */
export function showChoice(select, w, disabled) {
  const kept = Boolean(w.keep_awake_until) && Date.parse(w.keep_awake_until) > Date.now();
  const key = `${locale()} ${kept}`;
  if (select.dataset.key !== key) {
    select.dataset.key = key;
    const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
    select.replaceChildren(option("", t.keep_awake), ...[1, 4, 8].map((n) => option(String(n), t.keep_awake_hours(n))));
    if (kept) select.append(option("0", t.keep_awake_end));
    select.value = "";
  }
  select.setAttribute("aria-label", t.action_label(t.keep_awake, w.name));
  select.hidden = w.phase !== "RUNNING" || w.desired_state !== "RUNNING";
  select.disabled = disabled;
}

/** Asks the server to keep the workspace awake for as long as was chosen. */
export function keepAwake(id, hours) {
  return api("POST", `workspaces/${id}/keep-awake`, { hours: Number(hours) });
}

// Texts about a workspace: its state, the reason of a wait, the time of its sleep, failures.
import { ago, date, duration, has, known, locale, size, span, t } from "/assets/text.js";
import { state, user } from "/assets/store.js";

// The expected state of a workspace once the server has answered the last request.
const asked = { start: "RUNNING", sleep: "STANDBY", archive: "ARCHIVED" };

const resting = new Set(["PENDING", "STANDBY", "ARCHIVED"]);

/** Its operation; at rest, its phase. */
export function stateText(w) {
  if (w.operation !== "NONE") return known("operation.", w.operation);
  if (w.desired_state === "RUNNING" && resting.has(w.phase)) return known("operation.", "STARTING"); // the first step follows soon
  return dozes(w) ? t("dozing") : known("phase.", w.phase);
}

/** How long the operation has been running, or the next step; empty at rest. */
export function activityText(w) {
  const soon = asked[state.pending.get(w.id)];
  if (soon && w.operation === "NONE") return t(`desired.${soon}`);
  if (w.revert && w.operation === "NONE") return t("archive_restoring");
  if (w.operation !== "NONE") {
    const seconds = Math.max(0, Math.round((Date.now() - Date.parse(w.op_started_at)) / 1000));
    return Number.isNaN(seconds) ? "" : t("so_far", { Time: duration(seconds) });
  }
  const coming = `desired.${w.desired_state}`;
  return w.phase !== w.desired_state && w.phase !== "ERROR" && !w.waiting && has(coming) ? t(coming) : "";
}

// Its last use. The use of a running one is known a minute later, so until then the text does not say that it is unused.
function used(w, key, name) {
  if (w.last_access_at) return t(key, { [name]: ago(w.last_access_at) });
  return w.phase === "RUNNING" ? "" : t("never_used");
}

/** When it was last used. */
export const usedText = (w) => used(w, "used", "Ago");

/** The same in a place that is called after it. */
export const usedTime = (w) => used(w, "at", "Time");

/** The reason why it waits. */
export const waitingText = (w) => w.waiting?.help?.[locale()] ?? "";

/** The messages of servers about a wait or a failure, for administrators. */
export const serverText = (w) => (user.admin ? [w.waiting?.message, w.error_message].filter(Boolean).join("\n") : "");

/** Whether its owner keeps it awake now. */
export const kept = (w) => Boolean(w.keep_awake_until) && Date.parse(w.keep_awake_until) > Date.now();

/** Whether it dozes: it is frozen, and resumes immediately when it is used. */
export const dozes = (w) => w.phase === "RUNNING" && Boolean(w.doze_at);

/** Why it stays awake or when it goes to sleep, one line each. */
export function awakeText(w) {
  if (w.phase !== "RUNNING") return "";
  const lines = [];
  if (dozes(w)) lines.push(t("dozing_wakes"));
  if (kept(w)) lines.push(t("kept_awake", { Time: date(w.keep_awake_until) }));
  if (w.busy) lines.push(busyText(w.busy));
  const sleep = w.sleep_at ?? (kept(w) ? null : w.sleep_due_at);
  if (sleep) lines.push(t("sleeps_in", { Span: span(Date.parse(sleep) - Date.now()) }));
  if (w.page_activity === "traffic") lines.push(t("traffic"));
  return lines.join("\n");
}

// Why it is awake: a program may report that it is busy without a reason.
export function busyText(busy) {
  if (busy.reason === "BusyFile" && !busy.detail) return t("busy.silent");
  const key = `busy.${busy.reason}`;
  return t(has(key) ? key : "busy.unknown", { What: busy.detail ?? "" });
}

// Whether its home may have changed since it was measured. Only the home of an unused workspace stays the same.
const mayDiffer = (w) => w.phase === "RUNNING" || !(Date.parse(w.home.measured_at) >= (Date.parse(w.last_access_at) || 0));

// The size of its home, with the time of the measurement if it may be outdated. An empty home is filled soon.
function measured(w) {
  if (w.home.bytes === 0 && !w.home.at_least) return mayDiffer(w) ? "" : t("nothing");
  const now = size(w.home.bytes);
  return mayDiffer(w) && w.home.measured_at ? t("size_measured", { Size: now, Ago: ago(w.home.measured_at) }) : now;
}

/** The size of its home; empty if not known. */
export function homeText(w) {
  const now = w.home ? measured(w) : "";
  if (!now) return "";
  const [exact, atLeast] = w.home.large ? ["home_large", "home_large_at_least"] : ["home", "home_at_least"];
  return t(w.home.at_least ? atLeast : exact, { Size: now });
}

/** The same in a place that is called after it. */
export const sizeText = (w) => (w.home ? measured(w) : "");

const hasVolume = (w) => w.conditions["storage.volume_ready"]?.status === "True";

/** Whether its files are only in a damaged archive, so that it cannot be opened with them. */
export const lostArchive = (w) => Boolean(w.archive?.damage) && w.phase !== "RUNNING" && !hasVolume(w);

/** The failure and the remedy. */
export function failureText(w) {
  const damaged = w.archive?.damage ? [hasVolume(w) ? t("damaged_beside_volume") : t("damaged")] : [];
  if (!w.error_reason && w.phase !== "ERROR") return damaged.join("\n");
  const lines = w.error_reason ? [t("failed", { Reason: known("failed_with.", w.error_reason) }), ...damaged] : damaged;
  if (w.error_help) lines.push(w.error_help[locale()]);
  return lines.join("\n");
}

/** Whether its image could not be pulled, temporarily or permanently. */
export const pullFailed = (w) => Boolean(w.waiting?.cause) || (w.phase === "ERROR" && w.error_reason === "ImagePullFailed");

/** Whether another image, or the same one after a fix, is tried immediately. */
export const imageMayHelp = (w) => pullFailed(w) || (w.phase === "ERROR" && ["RetryExceeded", "Timeout"].includes(w.error_reason));

/** Whether it needs a person's attention. */
export const needsCare = (w) => w.phase === "ERROR" || Boolean(w.archive?.damage) ||
  Boolean(w.waiting && w.waiting.reason !== "JobQueued" && (w.waiting.reason !== "PullingImage" || w.waiting.cause));

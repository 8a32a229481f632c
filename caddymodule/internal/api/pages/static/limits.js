// How many of the user's workspaces run, of how many that may.
import { api, onLanguage, t } from "/assets/text.js";

const place = document.getElementById("running");
let limit = null;
let running = 0;

/** Shows the number; those in ERROR hold no place. */
export function countRunning(workspaces) {
  const runs = (w) => w.phase === "RUNNING" || w.desired_state === "RUNNING";
  running = workspaces.filter((w) => w.phase !== "ERROR" && runs(w)).length;
  show();
}

function show() {
  const text = limit ? t("running_of", { Running: running, Limit: limit }) : "";
  if (place.textContent !== text) place.textContent = text;
}

onLanguage(show);
api("GET", "limits").then((limits) => {
  limit = limits.max_running_per_user;
  show();
}, () => { /* the connection's state is shown elsewhere */ });

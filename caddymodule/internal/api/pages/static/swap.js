// At the limit of running workspaces: asks which one goes to sleep, and puts it to sleep.
import { h, show } from "/assets/dom.js";
import { ago, api, explain, onLanguage, t } from "/assets/text.js";
import { asked } from "/assets/dialogs.js";
import { busyText } from "/assets/status.js";
import { state } from "/assets/store.js";

const dialog = document.getElementById("swap");
const form = dialog.querySelector("form");
const choices = document.getElementById("swap-choices");
const message = document.getElementById("swap-message");
const ok = form.querySelector("[value=ok]");
const pause = 500; // milliseconds
let asking = null; // the question: the name, and the problem that lists the running workspaces
let chosen = ""; // the id of the workspace to put to sleep
let failure = null;
let making = false; // one is going to sleep

const isLimit = (error) => error.status === 429 && Array.isArray(error.problem?.running);

/**
 * Makes a request that counts against the limit of running workspaces, and returns its answer. At the limit
 * it asks which workspace goes to sleep instead; it returns undefined when the person gives up.
 */
export async function withRoom(name, attempt) {
  try {
    return await attempt();
  } catch (error) {
    if (!isLimit(error)) throw error;
    return swap(name, error.problem, attempt);
  }
}

async function swap(name, problem, attempt) {
  let answer;
  asking = { name, problem };
  chosen = "";
  failure = null;
  making = false;
  form.onsubmit = async (event) => {
    if (event.submitter?.value !== "ok" || making) return;
    event.preventDefault();
    const other = chosen;
    if (!other) return;
    making = true;
    failure = null;
    draw();
    try {
      await api("POST", `workspaces/${other}/sleep`);
      answer = await free(other, attempt);
      dialog.close("ok");
    } catch (error) {
      if (isLimit(error)) asking.problem = error.problem;
      failure = error;
    }
    making = false;
    draw();
  };
  draw();
  await asked(dialog);
  asking = null;
  return answer;
}

// The other one counts as running until it has stopped.
async function free(other, attempt) {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      const w = state.workspaces.get(other);
      if (!isLimit(error) || !dialog.open || w?.phase !== "RUNNING") throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

function draw() {
  if (!asking) return;
  const list = asking.problem.running;
  document.getElementById("swap-title").textContent = t("swap_title", { Name: asking.name });
  document.getElementById("swap-text").textContent = list.length > 0
    ? t("swap_text", { Limit: asking.problem.limit }) : explain({ problem: asking.problem });
  const isThere = list.some((w) => w.id === chosen && w.operation === "NONE");
  if (!isThere) chosen = (list.find((w) => w.operation === "NONE" && !w.busy) ?? list.find((w) => w.operation === "NONE"))?.id ?? "";
  show(choices, list.map((w) => h("label", { class: "choice" },
    h("input", { type: "radio", name: "swap", value: w.id, required: true, disabled: w.operation !== "NONE" || making,
      checked: w.id === chosen, onchange: () => { chosen = w.id; } }),
    h("span", null, h("bdi", { class: "name" }, w.name), h("span", { class: "hint" },
      w.busy ? busyText(w.busy) : w.never_used ? t(w.idle_seconds < 120 ? "just_started" : "never_used") : t("used", { Ago: ago(new Date(Date.now() - w.idle_seconds * 1000)) }))))));
  choices.hidden = list.length === 0;
  ok.hidden = list.length === 0;
  ok.disabled = making;
  ok.textContent = making ? t("swap_making") : t("swap");
  message.hidden = !failure;
  message.textContent = failure ? explain(failure) : "";
}

onLanguage(draw);

// The dialog in which an administrator chooses with which files a workspace is recovered.
import { date, size, t } from "/assets/text.js";

const dialog = document.getElementById("recovery");
const field = document.getElementById("recovery-choices");
const warning = document.getElementById("recovery-warning");

/** Asks which of the choices of a problem is to be made; returns one, or null. */
export function choose(name, problem) {
  document.getElementById("recovery-title").textContent = t.recovery_title(name);
  document.getElementById("recovery-text").textContent = t.recovery_text(problem.reason);
  for (const old of field.querySelectorAll("label")) old.remove();
  problem.choices.forEach((choice, i) => field.append(option(problem, choice, i)));
  warn(null);
  field.onchange = () => warn(chosen(problem));
  dialog.returnValue = "cancel";
  dialog.showModal();
  field.querySelector("input")?.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? chosen(problem) : null), { once: true });
  });
}

function option(problem, choice, i) {
  const label = document.createElement("label");
  const input = Object.assign(document.createElement("input"), { type: "radio", name: "choice", value: String(i), required: true });
  label.append(input, ` ${words(problem, choice)}`);
  return label;
}

function words(problem, choice) {
  if (choice.choice === "volume") return t.choice_volume(problem.volume?.created_at ? date(problem.volume.created_at) : "");
  if (choice.choice === "empty") return t.choice_empty;
  const archive = problem.archives.find((a) => a.key === choice.key);
  return t.choice_archive(date(archive.modified), size(archive.size_bytes), archive.current);
}

function chosen(problem) {
  const input = field.querySelector("input:checked");
  return input ? problem.choices[Number(input.value)] : null;
}

function warn(choice) {
  warning.hidden = !choice?.replace_volume;
  warning.textContent = warning.hidden ? "" : t.replaces_volume;
}

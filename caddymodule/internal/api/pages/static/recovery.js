// Recovery, and the dialog in which an administrator chooses the files.
import { asked, confirmed } from "/assets/dialogs.js";
import { api, date, known, size, t } from "/assets/text.js";

const dialog = document.getElementById("recovery");
const field = document.getElementById("recovery-choices");
const warning = document.getElementById("recovery-warning");

/**
 * Recovers a workspace and returns it, or undefined if the person gives up. If it is not
 * clear which files are the right ones, the server refuses and lists the existing ones; the
 * list may be outdated when the choice arrives.
 */
export async function recover(w) {
  let choice;
  for (;;) {
    try {
      return await api("POST", `workspaces/${w.id}/recover`, choice);
    } catch (error) {
      if (!error.problem?.type?.endsWith(":choice-needed")) throw error;
      choice = await choose(w.name, error.problem);
      if (!choice) return undefined;
      const question = [t("replace_title"), t("replace_text", { Name: w.name }), t("replace")];
      if (choice.replace_volume && !(await confirmed(...question))) return undefined;
    }
  }
}

// Asks for one of a problem's choices; returns it, or null.
function choose(name, problem) {
  document.getElementById("recovery-title").textContent = t("recovery_title", { Name: name });
  document.getElementById("recovery-text").textContent = t("recovery_text", { Reason: known("failed_with.", problem.reason) });
  for (const old of field.querySelectorAll("label")) old.remove();
  problem.choices.forEach((choice, i) => field.append(option(problem, choice, i)));
  warn(null);
  field.onchange = () => warn(chosen(problem));
  const answer = asked(dialog);
  field.querySelector("input")?.focus();
  return answer.then((value) => (value === "ok" ? chosen(problem) : null));
}

function option(problem, choice, i) {
  const label = document.createElement("label");
  const input = Object.assign(document.createElement("input"), {
    type: "radio", name: "choice", value: String(i), required: true,
  });
  label.append(input, ` ${words(problem, choice)}`);
  return label;
}

function words(problem, choice) {
  if (choice.choice === "volume") {
    const time = problem.volume?.created_at;
    return time ? t("choice_volume_of", { Time: date(time) }) : t("choice_volume");
  }
  if (choice.choice === "empty") return t("choice_empty");
  const archive = problem.archives.find((a) => a.key === choice.key);
  return t(archive.current ? "choice_archive_current" : "choice_archive", {
    Time: date(archive.modified), Size: size(archive.size_bytes),
  });
}

function chosen(problem) {
  const input = field.querySelector("input:checked");
  return input ? problem.choices[Number(input.value)] : null;
}

function warn(choice) {
  warning.hidden = !choice?.replace_volume;
  warning.textContent = warning.hidden ? "" : t("replaces_volume");
}

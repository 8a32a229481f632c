// The archives of a workspace, and restoring an older one.
import { h } from "/assets/dom.js";
import { api, date, size, t } from "/assets/text.js";
import { confirmed } from "/assets/dialogs.js";
import { signedOut } from "/assets/store.js";
import { failed, toast } from "/assets/toast.js";

function entry(w, a) {
  const states = [a.current && t("archive_current"), a.kept && t("archive_kept"), a.damage && t("archive_damaged"),
    !a.damage && a.verified_at && t("archive_verified", { Time: date(a.verified_at) })].filter(Boolean);
  const possible = !a.damage && !(a.current && w.phase === "ARCHIVED") &&
    ["ARCHIVED", "STANDBY", "RUNNING"].includes(w.phase);
  return h("li", { "data-key": a.key },
    h("p", null, t("archive_of", { Time: date(a.created_at), Size: size(a.content_bytes ?? a.size) }),
      h("span", { class: "hint" }, states.join(" · "))),
    possible && h("button", { type: "button", disabled: w.operation !== "NONE" || w.revert !== null,
      "aria-label": t("action_label", { Action: t("archive_restore"), Name: date(a.created_at) }), onclick: () => restore(w, a) },
    t("archive_restore")));
}

async function restore(w, a) {
  const title = t("archive_restore_title", { Name: w.name, Time: date(a.created_at) });
  if (!(await confirmed(title, t("archive_restore_text"), t("archive_restore")))) return;
  try {
    await api("POST", `workspaces/${w.id}/archives/restore`, { archive: a.key }); // the stream reports the progress
    toast(() => t("archive_restoring"));
  } catch (error) {
    if (!signedOut(error)) failed(t("archive_restore"), error);
  }
}

const draw = ({ items }, w) => (items.length > 0 ? h("ul", { class: "lines" }, items.map((a) => entry(w, a))) : null);

/** The part of a workspace's page: its API path and its drawing. */
export const archives = { path: "archives", draw };

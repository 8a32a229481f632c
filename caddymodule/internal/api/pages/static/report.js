// A report about a failed workspace, which its owner can send to an administrator.
import { asked } from "/assets/dialogs.js";
import { known, t } from "/assets/text.js";
import { toast } from "/assets/toast.js";

const dialog = document.getElementById("report");
const text = document.getElementById("report-message");

/** Shows the report, and copies it if the person wants that. */
export async function report(w) {
  document.getElementById("report-title").textContent = t("report_title", { Name: w.name });
  text.value = t("report_lines", { Name: w.name, ID: w.id, Address: new URL(w.url, location.href).href,
    Reason: w.error_reason ? `${known("failed_with.", w.error_reason)} (${w.error_reason})` : known("phase.", w.phase),
    Since: new Date(w.phase_changed_at ?? w.updated_at).toISOString() }); // it is read elsewhere, and later
  text.setSelectionRange(0, 0); // otherwise the field shows the end of its text
  if ((await asked(dialog)) === "ok") toast(() => t("report_copied"));
}

// Browsers deny pages without TLS the clipboard: then the text is selected, to be copied by hand.
document.getElementById("report-copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(text.value);
    dialog.close("ok");
  } catch {
    text.select();
  }
});

// The dialog in which a workspace gets another name, description or image.
import { api, explain, onLanguage, t } from "/assets/text.js";
import { imageField, loadImages } from "/assets/images.js";

const dialog = document.getElementById("edit");
const form = dialog.querySelector("form");
const name = document.getElementById("edit-name");
const description = document.getElementById("edit-description");
const message = document.getElementById("edit-message");
const image = imageField("edit-image");
let open = null; // the workspace that is edited
let failure = null;

/** Asks for the changes, saves them and returns the workspace; null when nothing was changed. */
export function edit(w) {
  open = w;
  failure = null;
  name.value = w.name;
  description.value = w.description ?? "";
  image.set(w.image_ref);
  loadImages();
  show();
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve, reject) => {
    let saved = null;
    form.onsubmit = async (event) => {
      if (event.submitter?.value !== "ok") return;
      event.preventDefault();
      if (!name.value.trim()) {
        failure = "name";
        show();
        name.focus();
        return;
      }
      const change = changes();
      if (Object.keys(change).length === 0) {
        dialog.close();
        return;
      }
      const button = form.querySelector("[value=ok]");
      button.disabled = true;
      try {
        saved = await api("PATCH", `workspaces/${w.id}`, change);
        dialog.close();
      } catch (error) {
        if (error.status === 401) {
          dialog.close();
          reject(error);
        }
        failure = error;
        show();
      } finally {
        button.disabled = false;
      }
    };
    dialog.addEventListener("close", () => resolve(saved), { once: true });
  });
}

// The errors after which another image, or the same one fixed, is tried at once.
const imageMayHelp = () =>
  open.phase === "ERROR" && ["ImagePullFailed", "RetryExceeded", "Timeout"].includes(open.error_reason);

function changes() {
  const change = {};
  if (name.value.trim() !== open.name) change.name = name.value.trim();
  if (description.value.trim() !== (open.description ?? "")) change.description = description.value.trim();
  const ref = image.change(imageMayHelp());
  if (ref !== undefined) change.image_ref = ref;
  return change;
}

function show() {
  if (!open) return;
  document.getElementById("edit-title").textContent = t("edit_title", { Name: open.name });
  document.getElementById("edit-note").textContent = imageMayHelp() ? t("image_again") : t("image_later");
  message.hidden = !failure;
  message.textContent = failure === "name" ? t("name_needed") : failure ? explain(failure) : "";
}

onLanguage(show);

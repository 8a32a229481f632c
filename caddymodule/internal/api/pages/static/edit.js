// The dialog that changes a workspace's name, description or image.
import { exchange, explain, onLanguage, t } from "/assets/text.js";
import { imageField, imageName, loadImages } from "/assets/images.js";
import { imageMayHelp } from "/assets/status.js";

const dialog = document.getElementById("edit");
const form = dialog.querySelector("form");
const name = document.getElementById("edit-name");
const description = document.getElementById("edit-description");
const message = document.getElementById("edit-message");
const image = imageField("edit-image");
let open = null; // the workspace that is edited, as it was last read
let etag = null; // and its version
let failure = null; // a failed request, "name", or the changes by others

const fields = ["name", "description", "image_ref"];

/** Asks for the changes, saves them and returns the workspace; null when nothing was changed. */
export async function edit(w) {
  ({ data: open, etag } = await exchange("GET", `workspaces/${w.id}`));
  failure = null;
  name.value = open.name;
  description.value = open.description ?? "";
  image.set(open.image_ref);
  loadImages();
  show();
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
      const button = form.querySelector("[value=ok]");
      button.disabled = true;
      try {
        saved = await save();
        if (saved !== undefined) dialog.close();
      } catch (error) {
        if (error.status === 401) {
          dialog.close();
          reject(error);
        }
        failure = error;
      } finally {
        button.disabled = false;
        show();
      }
    };
    dialog.addEventListener("close", () => resolve(saved ?? null), { once: true });
  });
}

// Saves, and returns the workspace, or undefined if others changed the same fields in the meantime: then the
// dialog shows their changes, and the next attempt overwrites them. A step of the server is no such change.
async function save() {
  const change = changes();
  if (Object.keys(change).length === 0) return null;
  for (;;) {
    try {
      return (await exchange("PATCH", `workspaces/${open.id}`, change, { "If-Match": etag })).data;
    } catch (error) {
      if (error.status !== 412) throw error;
    }
    const before = open;
    ({ data: open, etag } = await exchange("GET", `workspaces/${open.id}`));
    const theirs = fields.filter((field) => open[field] !== before[field]);
    if (theirs.length > 0) {
      if (!("name" in change)) name.value = open.name;
      if (!("description" in change)) description.value = open.description ?? "";
      if (!("image_ref" in change)) image.set(open.image_ref);
      failure = { theirs };
      return undefined;
    }
  }
}

// The changes by others, one line each.
function theirsText(theirs) {
  const called = { name: t("name"), description: t("workspace_description"), image_ref: t("image") };
  const value = (field) => (field === "image_ref" ? imageName(open.image_ref) : open[field] ?? "");
  const lines = theirs.map((field) => t("changed_meanwhile_field", { Field: called[field], Value: value(field) }));
  return [t("changed_meanwhile"), ...lines].join("\n");
}

function changes() {
  const change = {};
  if (name.value.trim() !== open.name) change.name = name.value.trim();
  if (description.value.trim() !== (open.description ?? "")) change.description = description.value.trim();
  const ref = image.change(imageMayHelp(open));
  if (ref !== undefined) change.image_ref = ref;
  return change;
}

function show() {
  if (!open) return;
  document.getElementById("edit-title").textContent = t("edit_title", { Name: open.name });
  document.getElementById("edit-note").textContent = imageMayHelp(open) ? t("image_again") : t("image_later");
  message.hidden = !failure;
  message.textContent = !failure ? "" : failure === "name" ? t("name_needed")
    : failure.theirs ? theirsText(failure.theirs) : explain(failure);
}

onLanguage(show);

// The dialog that creates a workspace.
import { api, explain, onLanguage, requestKey, t } from "/assets/text.js";
import { imageField, loadImages } from "/assets/images.js";
import { pageOf } from "/assets/router.js";
import { put, signedOut, state } from "/assets/store.js";
import { withRoom } from "/assets/swap.js";
import { toast } from "/assets/toast.js";

const dialog = document.getElementById("create-dialog");
const form = document.getElementById("create-form");
const name = document.getElementById("create-name");
const description = document.getElementById("create-description");
const git = document.getElementById("create-git");
const message = document.getElementById("create-message");
const button = document.getElementById("create");
const image = imageField("create-image");
let failure = null; // a failed request, or "name"
let making = false;
let like = null; // the workspace that is duplicated
let key = ""; // of the request: a repeated request creates only one workspace

function draw() {
  message.hidden = !failure;
  message.textContent = failure === "name" ? t("name_needed") : failure ? explain(failure) : "";
  button.disabled = making;
  git.parentElement.hidden = !image.image()?.git;
}

function changedForm() {
  key = requestKey();
  draw();
}

/** Opens the dialog: for a new workspace, or for one with the image and the settings of another. */
export function create(other) {
  if (dialog.open) return;
  form.reset();
  like = other?.id ? other : null; // an event is not a workspace
  image.set(like?.image_ref ?? null);
  if (like) {
    name.value = t("copy_of", { Name: [...like.name].slice(0, 200).join("") });
    description.value = like.description ?? "";
    git.value = like.git_url ?? "";
  }
  document.getElementById("create-like").hidden = !like;
  failure = null;
  loadImages().then(draw);
  changedForm();
  dialog.showModal();
}

async function send() {
  failure = name.value.trim() ? null : "name";
  draw();
  if (failure) {
    name.focus();
    return;
  }
  const body = { name: name.value.trim() };
  if (description.value.trim()) body.description = description.value.trim();
  if (image.value()) body.image_ref = image.value();
  if (!git.parentElement.hidden && git.value.trim()) body.git_url = git.value.trim();
  if (like?.memo) body.memo = like.memo;
  making = true;
  draw();
  try {
    const w = await withRoom(body.name, () => api("POST", "workspaces", body, { "Idempotency-Key": key }));
    if (w) {
      if (!state.workspaces.has(w.id)) put(w);
      dialog.close();
      toast(() => t("created", { Name: w.name }), { say: () => t("details"), run: () => { location.hash = pageOf(w.id); } }, "done",
        () => (state.workspaces.get(w.id)?.phase ?? "RUNNING") !== "RUNNING");
    }
  } catch (error) {
    if (signedOut(error)) dialog.close();
    failure = error;
    if (error.status) key = requestKey(); // the request was answered, so the next one needs a new key
  }
  making = false;
  draw();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!making) send();
});
form.addEventListener("input", changedForm);
document.getElementById("create-image").addEventListener("choose", changedForm);
onLanguage(draw);

// Changes the user's password.
import { api, explain, onLanguage, t } from "/assets/text.js";

const section = document.getElementById("password");
const form = document.getElementById("password-form");
const message = document.getElementById("password-message");
const done = document.getElementById("password-done");
let changed = false;
let failure = null;

function show() {
  message.hidden = !failure;
  message.textContent = failure ? explain(failure) : "";
  done.textContent = changed ? t("password_changed") : "";
}

async function change(event) {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  changed = false;
  failure = null;
  try {
    await api("POST", "me/password", { present: form.present.value, password: form.password.value });
    changed = true;
    form.reset();
  } catch (error) {
    failure = error;
  }
  button.disabled = false;
  show();
  if (changed) done.focus();
  else (failure.problem?.field === "password" ? form.password : form.present).focus();
}

/** Offers the form. */
export function watchPassword() {
  form.addEventListener("submit", change);
  section.addEventListener("toggle", () => { if (section.open) { changed = false; failure = null; show(); } });
  onLanguage(show);
}

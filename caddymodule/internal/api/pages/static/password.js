// Changes the user's password.
import { h } from "/assets/dom.js";
import { api, explain, t } from "/assets/text.js";
import { changed, user } from "/assets/store.js";

let done = false;
let failure = null;
let asking = false;

async function send(event) {
  event.preventDefault();
  const form = event.target;
  if (asking) return;
  asking = true;
  done = false;
  failure = null;
  try {
    await api("POST", "me/password", { present: form.present.value, password: form.password.value });
    done = true;
    form.reset();
  } catch (error) {
    failure = error;
  }
  asking = false;
  changed();
  if (!done) (failure.problem?.field === "password" ? form.password : form.present).focus();
}

const field = (id, name, label, complete, hint) => h("div", null, h("label", { for: id }, label),
  h("input", { id, name, type: "password", autocomplete: complete, required: true, "aria-describedby": hint ? `${id}-hint` : null }),
  hint && h("p", { id: `${id}-hint`, class: "hint" }, hint));

/** The part of the account's page. */
export const password = () => h("section", { id: "password", class: "panel", "data-key": "password", "aria-labelledby": "password-title" },
  h("h2", { id: "password-title" }, t("password_title")), h("p", { class: "hint" }, t("password_text")),
  h("p", { id: "password-message", class: "notice", role: "alert", hidden: !failure }, failure ? explain(failure) : ""),
  h("form", { id: "password-form", class: "fields", novalidate: true, onsubmit: send },
    h("input", { name: "username", autocomplete: "username", value: user.name, hidden: true }),
    field("password-present", "present", t("password_present"), "current-password"),
    field("password-new", "password", t("password_new"), "new-password", t("password_minimum", { Count: user.minPassword })),
    h("button", { type: "submit", disabled: asking }, t("password_change"))),
  h("p", { id: "password-done", class: "done", role: "status" }, done ? t("password_changed") : ""));

// The users, for administrators: adding and changing one, and ending their sign-ins.
import { h, icon, lazy } from "/assets/dom.js";
import { ago, api, explain, locale, onLanguage, t } from "/assets/text.js";
import { paged, searchField } from "/assets/paged.js";
import { signedOut, state, user } from "/assets/store.js";
import { failed, toast } from "/assets/toast.js";

const list = paged("users");
const dialog = document.getElementById("user-dialog");
const form = dialog.querySelector("form");
const message = document.getElementById("user-message");
const limits = { max_running: "user-running", max_workspaces: "user-workspaces" };
const field = (id) => document.getElementById(id);
let query = {};
let edited = null; // the user being changed; null for a new one
let failure = null;
let sending = false;

/** Reads the list. */
export const loadUsers = () => list.read(query);

function draw() {
  field("user-title").textContent = edited ? t("edit_title", { Name: edited.username }) : t("user_new");
  field("user-name").parentElement.hidden = Boolean(edited);
  field("user-password-label").textContent = edited ? t("user_password_new") : t("password");
  field("user-password-hint").textContent = t("password_minimum", { Count: user.minPassword });
  for (const id of [...Object.values(limits), "user-disabled"]) field(id).closest("div, label").hidden = !edited;
  field("user-self").hidden = edited?.id !== user.id;
  message.hidden = !failure;
  message.textContent = failure ? explain(failure) : "";
  form.querySelector("[value=ok]").disabled = sending;
}

function ask(account) {
  edited = account;
  failure = null;
  form.reset();
  field("user-role").value = account?.role ?? "user";
  field("user-disabled").checked = account?.disabled ?? false;
  for (const [name, id] of Object.entries(limits)) field(id).value = account?.limits[name] ?? "";
  draw();
  dialog.showModal();
}

// The changed fields of the user.
function changes() {
  const change = {};
  if (field("user-role").value !== edited.role) change.role = field("user-role").value;
  if (field("user-disabled").checked !== edited.disabled) change.disabled = field("user-disabled").checked;
  if (field("user-password").value) change.password = field("user-password").value;
  for (const [name, id] of Object.entries(limits)) {
    const value = field(id).value === "" ? null : Number(field(id).value);
    if (value !== edited.limits[name]) change.limits = { ...change.limits, [name]: value };
  }
  return change;
}

form.addEventListener("submit", async (event) => {
  if (event.submitter?.value !== "ok") return;
  event.preventDefault();
  if (sending) return;
  sending = true;
  failure = null;
  draw();
  try {
    if (edited) await api("PATCH", `users/${edited.id}`, changes());
    else {
      await api("POST", "users", { username: field("user-name").value.trim(), password: field("user-password").value,
        role: field("user-role").value });
    }
    dialog.close();
    loadUsers();
  } catch (error) {
    if (signedOut(error)) dialog.close();
    failure = error;
  }
  sending = false;
  draw();
});

async function signOut(account) {
  try {
    await api("POST", `users/${account.id}/sign-out`);
    toast(() => t("user_signed_out", { Name: account.username }));
  } catch (error) {
    if (!signedOut(error)) failed(t("sign_out"), error);
  }
}

async function unlock(account) {
  try {
    await api("POST", `users/${account.id}/unlock`);
    toast(() => t("user_unlocked", { Name: account.username }));
  } catch (error) {
    if (!signedOut(error)) failed(t("user_unlock"), error);
  }
}

const entry = (account) => lazy(account.id, [account, locale(), state.minute], () => h("li", { "data-user": account.username },
  h("p", null, h("bdi", { class: "name" }, account.username),
    account.role === "admin" && h("span", { class: "tag" }, t("role.admin")),
    account.disabled && h("span", { class: "tag off" }, t("user_disabled")),
    h("span", { class: "hint" }, t("user_has", { Count: account.workspaces, Running: account.running }), " · ",
      account.last_sign_in_at ? t("user_signed_in", { Ago: ago(account.last_sign_in_at) }) : t("user_never"))),
  h("div", { class: "actions" },
    h("button", { type: "button", "aria-label": t("action_label", { Action: t("edit"), Name: account.username }),
      onclick: () => ask(account) }, t("edit")),
    h("button", { type: "button", "data-unlock": true, onclick: () => unlock(account),
      "aria-label": t("action_label", { Action: t("user_unlock"), Name: account.username }) }, t("user_unlock")),
    account.id !== user.id && h("button", { type: "button", "data-sign-out": true, onclick: () => signOut(account),
      "aria-label": t("action_label", { Action: t("sign_out"), Name: account.username }) }, t("sign_out")))));

/** The list, as a part of the administrator's view. */
export const users = () => [
  h("div", { class: "tools", role: "search", "data-key": "tools" },
    searchField("users-search", t("user_search"), (q) => { query = q ? { q } : {}; loadUsers(); }),
    h("button", { type: "button", id: "user-new", class: "primary", onclick: () => ask(null) }, icon("plus"), t("user_new"))),
  h("section", { class: "panel", hidden: list.items.length === 0, "aria-label": t("tabs.users"), "data-key": "list" },
    h("ul", { id: "users-list", class: "lines" }, list.items.map(entry))),
  list.end(),
];

onLanguage(draw);

// The user's personal access tokens: creating one, which is shown once, and revoking one.
import { h, icon } from "/assets/dom.js";
import { ago, api, date, explain, t } from "/assets/text.js";
import { changed, signedOut, user } from "/assets/store.js";
import { toast } from "/assets/toast.js";

const scopes = ["read", "write", "workspace", ...(user.admin ? ["admin"] : [])];
const days = [7, 30, 90, 365];
let items = [];
let failure = null;
let made = null; // the secret of the new token
let making = false;

/** Reads the list. */
export async function loadTokens() {
  try {
    items = (await api("GET", "tokens")).items;
  } catch (error) {
    if (!signedOut(error)) failure ??= error;
  }
  changed();
}

/** Hides the secret. */
export const forget = () => { made = null; };

async function make(event) {
  event.preventDefault();
  const form = event.target;
  if (making) return;
  making = true;
  failure = null;
  made = null;
  changed();
  const chosen = scopes.filter((scope) => form.elements[`scope-${scope}`].checked);
  try {
    made = (await api("POST", "tokens", { name: form.elements.name.value.trim(), scopes: chosen,
      expires_in_days: Number(form.elements.days.value) })).token;
    form.reset();
    await loadTokens();
  } catch (error) {
    if (!signedOut(error)) failure = error;
  }
  making = false;
  changed();
}

async function revoke(token) {
  failure = null;
  try {
    await api("DELETE", `tokens/${token.id}`);
    toast(() => t("token_revoked", { Name: token.name }));
  } catch (error) {
    if (!signedOut(error)) failure = error;
  }
  await loadTokens();
  document.getElementById("tokens-title")?.focus();
}

// Browsers deny pages without TLS the clipboard: then the text is selected, to be copied by hand.
async function copy() {
  const field = document.getElementById("token-secret");
  field.select();
  try {
    await navigator.clipboard.writeText(field.value);
    toast(() => t("copied"));
  } catch {
    field.focus();
  }
}

function entry(token) {
  const used = !token.last_used_at ? t("token_never_used")
    : t(token.last_used_address ? "token_used_from" : "used", { Ago: ago(token.last_used_at), Address: token.last_used_address });
  return h("li", { "data-key": token.id },
    h("p", null, h("bdi", { class: "name" }, token.name), token.scopes.map((scope) => h("code", { class: "tag" }, scope)),
      h("span", { class: "hint" }, used, " · ", t("token_until", { Time: date(token.expires_at) }))),
    h("button", { type: "button", class: "danger", onclick: () => revoke(token),
      "aria-label": t("action_label", { Action: t("revoke"), Name: token.name }) }, t("revoke")));
}

const secret = () => h("div", { class: "secret", role: "status" }, h("p", null, t("token_once")),
  h("div", { class: "row" }, h("input", { id: "token-secret", readonly: true, value: made, "aria-label": t("token_secret"),
    class: "code", onclick: (event) => event.target.select() }),
  h("button", { type: "button", id: "token-copy", onclick: copy }, icon("copy"), t("copy"))));

const scopeField = (scope) => h("label", { class: "check" },
  h("input", { type: "checkbox", name: `scope-${scope}`, checked: scope === "read" || scope === "write" }),
  h("span", null, h("code", null, scope), h("span", { class: "hint" }, t(`scope.${scope}`))));

const form = () => h("details", { id: "token-new" }, h("summary", null, t("token_new")),
  h("form", { id: "token-form", class: "fields", onsubmit: make },
    h("div", null, h("label", { for: "token-name" }, t("name")),
      h("input", { id: "token-name", name: "name", maxlength: "100", required: true, autocomplete: "off" })),
    h("div", null, h("label", { for: "token-days" }, t("token_expires")), h("select", { id: "token-days", name: "days" },
      days.map((n) => h("option", { value: String(n), selected: n === 30 }, t("token_days", { Count: n }))))),
    h("fieldset", null, h("legend", null, t("token_scopes")), scopes.map(scopeField)),
    h("button", { type: "submit", class: "primary", disabled: making }, t("token_make"))));

/** The part of the account's page. */
export const tokens = () => h("section", { id: "tokens", class: "panel", "data-key": "tokens", "aria-labelledby": "tokens-title" },
  h("h2", { id: "tokens-title", tabindex: "-1" }, t("tokens_title")), h("p", { class: "hint" }, t("tokens_text")),
  failure && h("p", { id: "tokens-message", class: "notice", role: "alert" }, explain(failure)),
  made && secret(),
  items.length > 0 ? h("ul", { id: "tokens-list", class: "lines" }, items.map(entry)) : h("p", { class: "hint" }, t("tokens_none")),
  form());

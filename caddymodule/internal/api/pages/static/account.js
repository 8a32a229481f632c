// The user's own account: its sign-ins, password, access tokens and activity.
import { h, show } from "/assets/dom.js";
import { t } from "/assets/text.js";
import { loadOwnAudit, ownAudit } from "/assets/audit.js";
import { password } from "/assets/password.js";
import { onRoute, view } from "/assets/router.js";
import { loadSessions, sessions } from "/assets/sessions.js";
import { user } from "/assets/store.js";
import { forget, loadTokens, tokens } from "/assets/tokens.js";

view("account", (place) => show(place,
  h("div", { class: "head", "data-key": "head" }, h("h1", null, t("account"))),
  user.sessions && sessions(), tokens(), user.passwords && password(), ownAudit()));
onRoute(({ name }) => {
  forget();
  if (name !== "account") return;
  if (user.sessions) loadSessions();
  loadTokens();
  loadOwnAudit();
});

// The common parts of all views: navigation, the connection, and the end of a session.
import { show } from "/assets/dom.js";
import { api, explain, t } from "/assets/text.js";
import { failedCount, problemList } from "/assets/failed.js";
import { route } from "/assets/router.js";
import { onChange, signedOut, state } from "/assets/store.js";
import { toast } from "/assets/toast.js";

const connection = document.getElementById("connection");
const expired = document.getElementById("expired");

document.getElementById("logout").addEventListener("click", async () => {
  try {
    const done = await api("POST", "auth/logout");
    location.assign(done?.redirect ?? "/login");
  } catch (error) {
    if (!signedOut(error)) toast(() => explain(error), null, "failed");
  }
});
document.getElementById("sign-in-again").addEventListener("click", () => location.assign(`/login?return=%2F${location.hash}`));
expired.addEventListener("cancel", (event) => event.preventDefault()); // nothing works without signing in

onChange(() => {
  const here = route().name;
  if (here !== "workspace") document.title = t("title");
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.dataset.view === here) link.setAttribute("aria-current", "page");
    else if (link.dataset.view === "home" && here === "workspace") link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  if (connection.dataset.state !== state.connection || connection.textContent !== t(state.connection)) {
    connection.dataset.state = state.connection;
    connection.textContent = t(state.connection);
  }
  const count = document.getElementById("failed-count");
  if (count) {
    count.textContent = failedCount() > 0 ? String(failedCount()) : "";
    count.hidden = failedCount() === 0;
  }
  show(document.getElementById("problems-place"), problemList());
  if (state.expired && !expired.open) expired.showModal();
});

// The administrator's view: a tab for each of its parts.
import { h, show } from "/assets/dom.js";
import { t } from "/assets/text.js";
import { auditOnes, loadAudit } from "/assets/audit.js";
import { everyone, loadEveryone } from "/assets/everyone.js";
import { failedCount, failedOnes, loadFailures } from "/assets/failed.js";
import { onRoute, view } from "/assets/router.js";
import { user } from "/assets/store.js";
import { loadOverview, overviewOnes } from "/assets/overview.js";
import { loadRecent, recentOnes } from "/assets/recent.js";
import { allUsage, loadAllUsage } from "/assets/usage.js";
import { loadUsers, users } from "/assets/users.js";

const tabs = {
  failed: { draw: failedOnes, load: loadFailures },
  overview: { draw: overviewOnes, load: loadOverview },
  workspaces: { draw: everyone, load: loadEveryone },
  users: { draw: users, load: loadUsers },
  recent: { draw: recentOnes, load: loadRecent },
  usage: { draw: allUsage, load: loadAllUsage },
  audit: { draw: auditOnes, load: loadAudit },
};
let landing = "overview"; // the tab without an address of its own
const tabOf = (id) => (id in tabs ? id : landing);

if (user.admin) {
  view("admin", (place, id) => show(place,
    h("div", { class: "head", "data-key": "head" }, h("h1", null, t("administration"))),
    h("nav", { class: "tabs", "aria-label": t("administration"), "data-key": "tabs" }, Object.keys(tabs).map((name) =>
      h("a", { href: `#/admin/${name}`, "data-tab": name,
        "aria-current": name === tabOf(id) ? "page" : null }, t(`tabs.${name}`)))),
    h("div", { class: "part", "data-key": tabOf(id) }, tabs[tabOf(id)].draw())));
  onRoute(({ name, id }) => {
    if (name !== "admin") return;
    landing = failedCount() > 0 ? "failed" : "overview";
    tabs[tabOf(id)].load();
  });
}

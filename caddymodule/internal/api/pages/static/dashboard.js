// The dashboard: its views, their common parts, and the connection to the server.
import "/assets/home.js";
import "/assets/workspace.js";
import "/assets/account.js";
import "/assets/admin.js";
import "/assets/header.js";
import "/assets/keys.js";
import { api } from "/assets/text.js";
import { connect } from "/assets/events.js";
import { loadImages } from "/assets/images.js";
import { changed, state } from "/assets/store.js";

loadImages();
api("GET", "limits").then((limits) => {
  state.limit = limits.max_running_per_user;
  changed();
}, () => { /* the connection's state is shown elsewhere */ });
connect();

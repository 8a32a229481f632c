// The script that the gateway adds to the pages of workspaces. It tells the gateway when a person does
// something here, and tells the person when the workspace goes to sleep. It uses nothing of
// the page, and the page sees only one element of it, and only while the script shows something.
(function () {
  "use strict";
  var tag = document.currentScript, mark = Symbol.for("codehub.presence");
  if (!tag || window[mark]) return;
  try { // behind a service worker a frame gets the script, too, but the page around it watches it
    if (parent !== window && parent[mark]) return tag.remove();
  } catch (e) { /* of another origin */ }
  Object.defineProperty(window, mark, { value: true });
  var own = new URL(".", tag.src).href, lang = tag.dataset.lang, keep = Number(tag.dataset.keep);
  var posted = "posted" in tag.dataset, hides = "hides" in tag.dataset;
  var send = window.fetch.bind(window), id = Math.random().toString(36).slice(2);
  tag.remove();

  // The page: silent until the gateway knows that it reports, then reporting; gone once it has been left (it may
  // come back), and stopped when the user is signed out or the workspace is gone.
  var page = "silent";
  // The last state of the workspace from the gateway: running, dozing, asleep, waking or failed.
  var workspace = "";
  // The visible part: "notice", "answered" (the notice with its answer), "dozing", or a text of the cover.
  var view = "";
  function isCover() { return ["asleep", "waking", "failed", "loading", "back"].indexOf(view) >= 0; }
  function isLive() { return workspace === "running" || workspace === "dozing"; }
  function call(name, options) {
    options.credentials = "same-origin";
    options.cache = "no-store";
    options.referrerPolicy = "same-origin"; // the gateway identifies the page by its address, regardless of its policy
    options.redirect = "error";
    return send(own + name, options).then(function (answer) {
      if (answer.status === 401 || answer.status === 403 || answer.status === 404) stop();
      if (!answer.ok) throw answer;
      return answer.status === 204 ? null : answer.json();
    });
  }
  function post(name, body) {
    body.tab = id;
    return call(name, { method: "POST", keepalive: true, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  }
  function stop() {
    page = "stopped";
    if (view && !isCover()) hide();
  }
  function jitter(ms) { return ms * (0.75 + Math.random() / 2); }

  // Input by a person: the first is reported immediately, further input 20 s later.
  var every = 20000, reportedAt = -every, pending = false, reportTimer = 0;
  function used() {
    if (page === "stopped" || isCover()) return;
    if (workspace === "dozing") return wake();
    if (view === "notice") { reportedAt = -every; pending = false; showAnswer(); }
    if (pending) return;
    pending = true;
    clearTimeout(reportTimer);
    reportTimer = setTimeout(report, Math.max(0, reportedAt + every - performance.now()));
  }
  function report() {
    if (!pending || page === "stopped") return;
    reportedAt = performance.now();
    pending = false;
    post("presence", { input: true }).catch(function () { used(); });
  }
  // A dozing workspace resumes with the first input, which is reported immediately. A sleeping one needs
  // an explicit request to wake, so that a key meant for a dozing one never wakes it. Only a limit
  // refuses it. After another error, or no answer, the request is repeated for half a minute.
  var asked = null;
  function wake() {
    if (asked || isCover() && view !== "asleep") return;
    if (isCover()) say("waking");
    reportedAt = performance.now();
    ask(workspace === "dozing" ? { input: true } : { wake: true }, 1000);
  }
  function ask(body, pause) {
    asked = body;
    post("presence", body).then(function () {
      if (asked !== body) return;
      asked = null;
      if (workspace === "dozing") workspace = "running";
      if (view === "dozing") hide();
      seen = "";
      poll();
    }, function (answer) {
      if (asked !== body) return;
      var refused = answer && answer.status === 429;
      if (!refused && page !== "stopped" && pause <= 16000) {
        setTimeout(function () { if (asked === body) ask(body, 2 * pause); }, jitter(pause));
        return;
      }
      asked = null;
      if (refused) asleep(0);
      if (refused || view === "waking") say(refused || page === "stopped" ? "failed" : "asleep"); // when signed out, loading the address leads to the sign-in
    });
  }
  function leave(ends) { // the page may end: pending reports are sent now
    if (page === "stopped" || !pending && !ends) return;
    clearTimeout(reportTimer);
    if (pending) reportedAt = performance.now();
    navigator.sendBeacon(own + "presence", JSON.stringify({ tab: id, input: pending, bye: ends }));
    pending = false;
  }
  var last = "", moveTimer = 0, closedAt = -Infinity;
  function onInput(e) {
    if (!e.isTrusted || e.target === host) return;
    if (e.type === "pointermove") { // also fired when the page moves under a pointer at rest
      var at = e.screenX + "," + e.screenY;
      if (at === last || justClosed()) return;
      last = at;
      if (view === "notice") { // the pointer may be on its way to the notice
        moveTimer = moveTimer || setTimeout(function () { moveTimer = 0; used(); }, 1500);
        return;
      }
    }
    used();
  }
  function unmoved() {
    clearTimeout(moveTimer);
    moveTimer = 0;
  }
  // justClosed reports whether the notice was closed a moment ago: the pointer is leaving it, and the
  // click has made the page active. Neither shows that the person continues here.
  function justClosed() { return performance.now() < closedAt + 6000; }
  // Frames of the same origin are watched like the page. In others a click or a key makes
  // the page active for a few seconds, and the script checks more often than that. It also watches windows
  // that the page opens: documents that it writes into them do not pass the gateway, and lack the script.
  var kinds = ["keydown", "pointerdown", "pointermove", "touchstart", "wheel"], windows = [], followed = Symbol();
  function watch(w) {
    try {
      if (!w.document || w !== window && w[mark]) return; // it has its own script
      if (w !== window && w.location.host === location.host) meet(w.location.pathname);
      kinds.forEach(function (kind) { w.addEventListener(kind, onInput, { capture: true, passive: true }); });
      w.addEventListener("keydown", onKey, true);
      follow(w);
      for (var i = 0; i < w.frames.length; i++) watch(w.frames[i]);
    } catch (e) { /* of another origin */ }
  }
  // follow notices the windows that w opens: there is no other way to find them.
  function follow(w) {
    if (w[followed]) return;
    Object.defineProperty(w, followed, { value: true });
    [w, w.Document.prototype].forEach(function (of) { // document.open can open a window, too
      of.open = new Proxy(of.open, { apply: function (open, self, given) { return opened(Reflect.apply(open, self, given)); } });
    });
    if (w.documentPictureInPicture) w.documentPictureInPicture.addEventListener("enter", function (e) { opened(e.window); });
  }
  function opened(w) {
    if (w && w.window === w && windows.indexOf(w) < 0) {
      windows.push(w);
      watch(w);
    }
    return w;
  }
  function active(w) {
    try {
      if (!w.document.hidden && w.navigator.userActivation.isActive && !justClosed()) used();
    } catch (e) { /* of another origin, or not known here */ }
  }
  // The frames' paths since metAt, and those that are not reported yet. All are reported repeatedly:
  // the gateway forgets them, and each of its processes must learn them.
  var met = {}, found = [], metAt = 0, meetEvery = 30000;
  function meetAgain() {
    met = {};
    found = [];
    metAt = Date.now();
  }
  function meet(path) {
    if (met[path] || path.length > 250) return;
    met[path] = true;
    found.push(path);
  }
  function look() {
    if (host) place();
    if (page === "stopped") return;
    listen();
    manifests();
    if (Math.abs(Date.now() - metAt) > meetEvery) meetAgain(); // people set clocks back
    windows = windows.filter(function (w) { return !w.closed; });
    windows.concat(window).forEach(watch);
    if (page === "reporting" && found.length) {
      var some = found.splice(0, 12);
      post("presence", { frames: some }).catch(function () { found = some.concat(found); });
    }
    windows.concat(window).forEach(active);
  }

  // The state of the workspace: one request that waits for the next change while the page is
  // visible, a short one about every minute while it is hidden. Over HTTP/1.1 a browser has six
  // connections for all pages of a host, which the page may need: there no request waits while it runs.
  var seen = "", run = "", pollTimer = 0, failures = 0, waiting = null, polls = 0;
  function poll() {
    quiet();
    if (page === "stopped") return;
    var mine = ++polls, hidden = document.hidden, began = performance.now();
    var waits = !hidden && !(isLive() && few());
    waiting = new AbortController();
    var query = "?tab=" + id + "&seen=" + encodeURIComponent(seen) + (waits ? "&wait=25" : "") + (hides ? "&hides" : "");
    call("presence" + query, { signal: waiting.signal }).then(function (s) {
      if (mine !== polls) return;
      failures = 0;
      seen = s.tag;
      var was = workspace, soon = s.sleep_in !== undefined || s.state === "dozing";
      workspace = s.state;
      again(hidden ? jitter(60000) : isLive() && few() ? jitter(soon ? 2000 : 4000) : performance.now() - began > 1000 ? 100 : jitter(1000));
      show(s, was === "dozing");
    }).catch(function () {
      if (mine === polls) again(jitter(Math.min(1000 * Math.pow(2, failures++), document.hidden ? 120000 : 20000)));
    });
  }
  function few() {
    var page = performance.getEntriesByType("navigation")[0];
    return !page || !/^h[23]/.test(page.nextHopProtocol);
  }
  function again(ms) { if (page !== "stopped") pollTimer = setTimeout(poll, ms); }
  function quiet() {
    polls++;
    clearTimeout(pollTimer);
    if (waiting) waiting.abort();
  }

  var noticeTimer = 0, dismissed = 0, ends = 0;
  function show(s, dozed) {
    clearTimeout(noticeTimer);
    if (view === "loading" || view === "back") return; // only a reload helps
    if (isLive()) {
      // In another run of the workspace this page is dead. In the same run it continues, even behind the cover.
      if (s.run !== run && (run || isCover())) return reload();
      run = s.run;
      var dozing = workspace === "dozing";
      if (isCover() && !(dozing && view === "failed") || view === "dozing" && !dozing) hide();
      if (dozing) dozes();
      if (s.sleep_in === undefined) {
        dismissed = 0;
        if (view === "notice") hide();
        return;
      }
      var at = Date.now() + 1000 * s.sleep_in;
      if (view === "notice") ends = dismissed = at; // this answer may have come first
      else if (Math.abs(at - dismissed) > 5000) noticeTimer = setTimeout(notice, 1000 * (s.sleep_in - 60), at);
      return;
    }
    if (dozed) { // the view and the request were about the doze
      if (view === "dozing" || isCover()) hide();
      asked = null;
    }
    if (s.state === "asleep") return asleep(s.since);
    if (isCover()) say(s.state === "waking" ? "waking" : "failed");
  }
  function reload() {
    asked = null;
    if (!isCover()) asleep(0);
    if (posted) return say("back"); // a form that was sent would be sent again
    say("loading");
    setTimeout(say, 5000, "back");
    location.reload(); // a page with unsaved changes may ask first, and stay
  }

  // The elements are built by hand, in their own shadow root: neither the page's policy nor its
  // styles affect them.
  var host = null, root = null, box = null, row = null, head = null, text = null;
  var clock = 0, since = "", looking = false, before = null;
  var texts = {}; // by language and name: the server puts them here
  function t(name, values) {
    var words = (texts[lang] || texts.en)[name];
    if (typeof words === "object") words = words[new Intl.PluralRules(lang).select(values.Count)] || words.other;
    return words.replace(/\{\{\.(\w+)\}\}/g, function (all, variable) { return values[variable]; });
  }
  function make(kind, parent, content, does) {
    var e = document.createElement(kind);
    if (content) e.textContent = content;
    if (does) {
      e.type = "button";
      e.addEventListener("click", does);
    }
    parent.appendChild(e);
    return e;
  }
  function open(kind, element, role) {
    hide();
    before = document.activeElement;
    host = document.createElement("codehub-notice");
    host.lang = lang;
    host.style.cssText = "all:initial!important;position:fixed!important;z-index:2147483647!important;inset:auto 0 0 auto!important";
    root = host.attachShadow({ mode: "open" });
    try {
      var sheet = new CSSStyleSheet();
      sheet.replaceSync(css);
      root.adoptedStyleSheets = [sheet];
    } catch (e) { make("style", root, css); }
    box = make(element, root);
    box.className = kind;
    if (role) box.setAttribute("role", role);
    box.setAttribute("aria-labelledby", "head");
    box.setAttribute("aria-describedby", "text");
    var card = make("div", box);
    card.className = "card";
    head = make("h2", card);
    head.id = "head";
    text = make("p", card);
    text.id = "text";
    row = make("div", card);
    row.className = "row";
    host.addEventListener("pointerenter", unmoved);
    place();
  }
  // place puts the element where the page's own modal dialogs, which make everything outside of
  // them inert, do not cover it. Dialogs come and go.
  function place() {
    var parent = document.documentElement;
    try {
      var modals = document.querySelectorAll("dialog:modal");
      if (modals.length) parent = modals[modals.length - 1];
    } catch (e) { /* not known here */ }
    if (host.parentNode === parent) return;
    var covers = box.localName === "dialog", isOpen = covers && box.open;
    if (isOpen) box.close();
    parent.appendChild(host);
    if (isOpen) {
      if (looking) box.show(); else box.showModal();
    }
    if (!covers) {
      try { // above the page's full-screen elements
        host.popover = "manual";
        host.showPopover();
      } catch (e) { /* not known here */ }
    }
  }
  function hide() {
    clearInterval(clock);
    clearTimeout(noticeTimer);
    unmoved();
    if (!host) return;
    var back = root.activeElement && before;
    host.remove();
    host = root = null;
    view = "";
    looking = false;
    if (back && back.isConnected && back.focus) back.focus({ preventScroll: true });
  }

  // dozes shows that the page waits for a person, unless something else is shown.
  function dozes() {
    if (view || page === "stopped") return;
    open("dozing", "div", "status");
    view = "dozing";
    head.textContent = t("dozes");
    text.textContent = t("dozes_text");
  }
  function notice(at) {
    if (view === "dozing") hide();
    if (view || page === "stopped") return;
    open("notice", "div", "alertdialog");
    view = "notice";
    function tick() {
      var s = Math.max(0, Math.round((ends - Date.now()) / 1000));
      head.textContent = t("sleeps_in", { Seconds: s });
    }
    ends = dismissed = at;
    tick();
    clock = setInterval(tick, 1000);
    text.textContent = t("sleeps_text");
    make("button", row, t("stay"), function () {
      post("presence", { stay: true }).catch(function () { used(); });
      hide();
    }).className = "main";
    var longer = make("div", row); // keeps the hours next to their label
    longer.className = "row";
    if (keep >= 1) make("span", longer, t("keep_awake"));
    [1, 4, 8].forEach(function (hours) {
      if (hours > keep) return;
      make("button", longer, t("hours", { Count: hours }), function () {
        post("keep-awake", { hours: hours }).then(function () {
          showAnswer(t("kept_awake", { Count: hours }));
        }, function () { showAnswer(t("did_not_work")); });
      }).setAttribute("aria-label", t("keep_awake_label", { Count: hours }));
    });
    var leave = make("button", box.firstChild, "×", close);
    leave.className = "close";
    leave.setAttribute("aria-label", t("close"));
  }
  function close() { // without an answer: the person may be about to leave
    hide();
    closedAt = performance.now();
  }
  // showAnswer shows for a moment that the workspace stays awake, while the buttons of the notice are
  // still there.
  function showAnswer(why) {
    if (view !== "notice" && view !== "answered") return;
    view = "answered";
    clearInterval(clock);
    head.textContent = why || t("here");
    text.setAttribute("role", "status");
    text.textContent = "";
    clock = setTimeout(hide, why ? 3000 : 6000);
  }

  function asleep(seconds) {
    if (isCover()) {
      if (view === "waking" && !asked) say("asleep");
      return;
    }
    open("asleep", "dialog");
    text.setAttribute("role", "status");
    since = new Date(Date.now() - 1000 * (seconds || 0)).toLocaleTimeString(lang, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    box.addEventListener("click", function (e) { if (!looking && e.target.localName !== "button") wake(); });
    box.addEventListener("cancel", function (e) { e.preventDefault(); peek(); });
    say("asleep");
    box.showModal();
  }
  // say changes the text of the cover.
  function say(what) {
    if (view === what) return;
    view = what;
    row.textContent = "";
    var main = null;
    switch (what) {
      case "asleep":
        head.textContent = t("asleep", { Time: since });
        text.textContent = t("asleep_text");
        main = make("button", row, t("wake"), wake);
        break;
      case "waking":
        head.textContent = t("waking");
        text.textContent = t("waking_text");
        return;
      case "failed":
        head.textContent = t("failed");
        text.textContent = t("failed_text");
        main = make("button", row, t("show_why"), function () { location.reload(); });
        if (workspace === "dozing") make("button", row, t("wake"), function () { hide(); wake(); }); // then the page continues
        break;
      case "loading":
        head.textContent = t("loading");
        text.textContent = "";
        return;
      case "back":
        head.textContent = t("back");
        text.textContent = t("back_text");
        main = make("button", row, t("load_again"), function () { location.reload(); });
    }
    main.className = "main";
    main.autofocus = true;
    if (looking) return;
    make("button", row, t("look"), peek);
    if (box.open) main.focus({ preventScroll: true });
  }
  function peek() { // the cover becomes a bar, so that the page can be read and copied
    if (looking) return;
    looking = true;
    box.close();
    box.className = "asleep bar";
    if (row.lastChild && row.lastChild !== row.firstChild) row.lastChild.remove();
    box.show();
    if (before && before.isConnected && before.focus) before.focus({ preventScroll: true });
  }
  // A key in the page wakes a sleeping workspace. Modifier keys, and those that
  // copy, do not.
  var idle = ["Tab", "Escape", "Shift", "Control", "Alt", "AltGraph", "Meta", "OS", "CapsLock", "PrintScreen"];
  function onKey(e) {
    if (!isCover() || looking || !e.isTrusted) return;
    e.stopImmediatePropagation();
    if (e.ctrlKey || e.metaKey || e.altKey || idle.indexOf(e.key) >= 0 || /^F\d/.test(e.key)) return;
    if ((e.key === "Enter" || e.key === " ") && e.view === window && root.activeElement) return; // presses the button
    e.preventDefault();
    wake();
  }

  var css = ":host{color-scheme:light dark}*{box-sizing:border-box}" +
    "h2,p,button,span{font:400 15px/1.5 system-ui,-apple-system,'Segoe UI','Noto Sans KR','Apple SD Gothic Neo',sans-serif;" +
    "margin:0;word-break:keep-all;overflow-wrap:anywhere}" +
    ".card{background:#fff;color:#1c1e21;border:1px solid #c9ced6;border-radius:12px;padding:16px 20px;max-width:480px;box-shadow:0 8px 32px rgba(0,0,0,.25)}" +
    "h2{font-size:17px;font-weight:600}p{margin-top:4px;color:#4a5058}p:empty{display:none}" +
    ".row{display:flex;flex-wrap:wrap;gap:8px;align-items:center;margin-top:12px}.row:empty{display:none}" +
    "button{min-height:36px;padding:4px 14px;border:1px solid #9aa3af;border-radius:8px;background:transparent;color:inherit;cursor:pointer}" +
    "button:hover{background:rgba(127,127,127,.15)}button:focus-visible{outline:3px solid #4c8dff;outline-offset:2px}" +
    "button.main,button.main:hover{background:#1d5fd0;border-color:#1d5fd0;color:#fff;font-weight:600}" +
    ".row .row{margin:0}.notice .card{position:relative}.notice h2{padding-right:36px}" +
    "button.close{position:absolute;top:10px;right:10px;width:36px;padding:0;border-color:transparent;font-size:22px;line-height:1}" +
    ".notice,.dozing{position:fixed;inset:auto 16px 16px auto;max-width:calc(100vw - 32px)}" +
    ".asleep{position:fixed;inset:0;width:100vw;height:100vh;max-width:none;max-height:none;margin:0;border:0;" +
    "padding:16px;background:rgba(20,22,26,.55);cursor:pointer}" +
    ".asleep[open]{display:grid;place-items:center}.asleep::backdrop{background:none}.asleep .card{cursor:default}" +
    ".asleep.bar{inset:auto 0 0 0;height:auto;padding:8px;background:none;cursor:default}.bar .card{width:100%;max-width:none;padding:8px 16px}" +
    "@media(prefers-color-scheme:dark){.card{background:#202327;color:#e8eaed;border-color:#454b54}" +
    "p{color:#b4bac2}button.main,button.main:hover{background:#8ab4ff;border-color:#8ab4ff;color:#10203a}}" +
    "@media(prefers-reduced-motion:no-preference){.card{animation:in .2s ease-out}@keyframes in{from{opacity:0;transform:translateY(8px)}}}" +
    "@media(max-width:480px){.notice,.dozing{inset:auto 8px 8px 8px;max-width:none}}@media print{:host{display:none}}";

  // The page announces its reports once its own policies are known, which may forbid them. Such
  // a page sends nothing more, and its requests count as use.
  function announce(pause) {
    if (page !== "silent") return;
    post("presence", { hello: true }).then(function () {
      if (page !== "silent") return;
      page = "reporting";
      meetAgain(); // after a page was left, the gateway has forgotten its frames
      look();
    }, function () { setTimeout(announce, jitter(pause), Math.min(2 * pause, 60000)); });
  }
  function refused(e) {
    if (!e.isTrusted || e.disposition !== "enforce" || e.effectiveDirective !== "connect-src" || e.blockedURI.indexOf(own) !== 0) return;
    stop();
    quiet();
  }
  // once calls a function when an event occurs, and after ms at the latest.
  function once(target, event, ms, does) {
    var timer = setTimeout(act, ms);
    target.addEventListener(event, act);
    function act() {
      target.removeEventListener(event, act);
      clearTimeout(timer);
      does();
    }
  }
  function turned() {
    if (page === "gone" && document.hidden) return; // a page becomes hidden after it was left
    if (document.hidden) leave(false); else used(); // a person who comes back to the page is present
    look();
    poll();
  }
  function left() {
    leave(true);
    quiet();
    if (page !== "stopped") page = "gone";
  }
  function shown(e) {
    if (!e.persisted) return;
    if (page === "gone") page = "silent";
    seen = "";
    announce(1000);
    poll();
  }
  // listen is called repeatedly: a page that rewrites itself (document.open) removes all listeners.
  function listen() {
    document.addEventListener("securitypolicyviolation", refused);
    document.addEventListener("visibilitychange", turned);
    addEventListener("pagehide", left);
    addEventListener("pageshow", shown);
    addEventListener("load", look, true); // also of each frame
  }
  // A browser requests the manifest without cookies unless its link asks for them: to
  // the gateway that is an anonymous request.
  function manifests() {
    var links = document.head ? document.head.querySelectorAll('link[rel~="manifest" i]') : [];
    for (var i = 0; i < links.length; i++) {
      if (links[i].crossOrigin !== "use-credentials" && links[i].href.indexOf(location.origin + "/") === 0) links[i].crossOrigin = "use-credentials";
    }
  }
  var heads = new MutationObserver(manifests);
  heads.observe(document, { childList: true, subtree: true });
  setInterval(look, 2500);
  look();
  once(document, "DOMContentLoaded", 3000, function () {
    announce(1000);
    manifests();
    heads.disconnect();
    if (document.head) heads.observe(document.head, { childList: true });
  });
  once(window, "load", 15000, poll); // an extra element would disturb a page that compares itself with its source
})();

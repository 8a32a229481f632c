"use strict";
(function () {
  var root = document.documentElement;
  var form = document.getElementById("language");
  var titles = JSON.parse(root.dataset.titles);
  form.addEventListener("submit", function (event) {
    var lang = event.submitter && event.submitter.value;
    if (!lang) return;
    event.preventDefault();
    root.lang = lang;
    document.title = titles[lang] + " · " + root.dataset.brand;
    form.querySelectorAll("button").forEach(function (b) { b.setAttribute("aria-pressed", String(b.value === lang)); });
    var secure = location.protocol === "https:" ? ";secure" : "";
    document.cookie = "codehub_lang=" + lang + ";path=/;max-age=31536000;samesite=lax" + secure;
  });
})();

// Light, dark, or as the system: set before the first paint, so that nothing flashes.
"use strict";
(() => {
  const themes = ["auto", "light", "dark"];
  const words = { auto: "as the system", light: "light", dark: "dark" };
  const read = () => { try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; } };
  const apply = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  apply(read());
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const tell = () => button.setAttribute("aria-label", `Theme: ${words[read()]}`);
    button.title = "Light, dark, or as the system";
    button.addEventListener("click", () => {
      const next = themes[(themes.indexOf(read()) + 1) % themes.length];
      try { localStorage.setItem("theme", next); } catch { /* private windows keep nothing */ }
      apply(next);
      tell();
    });
    tell();
  });
})();

"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);

  // Pages opened from disk may be refused storage; the choice then lasts as long as the page.
  const remembered = (value) => {
    try {
      if (value) localStorage.setItem("selfsort-theme", value);
      return localStorage.getItem("selfsort-theme");
    } catch {
      return value;
    }
  };
  const showTheme = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    document.dispatchEvent(new Event("themechange"));
  };
  const stored = remembered();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remembered(root.dataset.theme);
    showTheme();
  });
  prefersDark.addEventListener("change", showTheme);
  showTheme();
})();

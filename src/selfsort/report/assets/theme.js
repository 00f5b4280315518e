"use strict";
// In the head, so that a large page does not begin in the wrong colours. A page from disk may be refused storage.
try {
  const theme = localStorage.getItem("selfsort-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {}

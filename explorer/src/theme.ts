/** Light or dark: as the system says, unless the user has said otherwise. The report remembers it under the same name. */

const KEY = "selfsort-theme";

function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage may be refused
  }
}

export function setUpTheme(button: HTMLButtonElement): void {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
  };
  const saved = stored();
  if (saved === "light" || saved === "dark") root.dataset.theme = saved;
  label();
  system.addEventListener("change", label);
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(KEY, root.dataset.theme);
    } catch {
      // it lasts as long as the page
    }
    label();
  });
}

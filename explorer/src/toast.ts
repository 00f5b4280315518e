/** Short messages at the foot of the page. */

import { byId, h } from "./dom";

const SECONDS = 6;

export function toast(text: string, options: { isProblem?: boolean; action?: { label: string; run: () => void } } = {}): void {
  const close = () => box.remove();
  const act = options.action;
  const box = h(
    "div",
    { class: options.isProblem ? "toast problem" : "toast", role: options.isProblem ? "alert" : null },
    h("span", {}, text),
    act && h("button", { type: "button", click: () => { close(); act.run(); } }, act.label),
    h("button", { type: "button", class: "quiet", "aria-label": "Close", click: close }, "×"),
  );
  const shown = byId("toasts");
  while (shown.childElementCount > 2) shown.firstElementChild?.remove();
  shown.append(box);
  if (!options.isProblem) setTimeout(close, SECONDS * 1000);
}

/** Keys that work anywhere on the page, except while something is typed or a window is open. */

export type Keys = Record<string, () => void>;

export function nameOfKey(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey">): string {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const isLetter = /^[a-z]$/.test(key);
  // Signs such as ? and + need Shift on some keyboards and not on others.
  return [event.ctrlKey || event.metaKey ? "Ctrl" : "", event.altKey ? "Alt" : "", event.shiftKey && isLetter ? "Shift" : "", key].filter(Boolean).join(" ");
}

export function listenForKeys(keys: Keys): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const isTyping = event.target instanceof Element && event.target.closest("input:not([type=range]), select, textarea") !== null;
    if (isTyping && event.key !== "Escape") return;
    const run = keys[nameOfKey(event)];
    if (!run) return;
    event.preventDefault();
    run();
  });
}

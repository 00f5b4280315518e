/** The window that writes what has been put right. */

import { type ExportKind, Refused, address, writeExport } from "./api";
import { fill, h } from "./dom";

const KINDS: [ExportKind, string, string][] = [
  ["labels", "Labels", "A csv with every image, its cluster and name now, your marks, and what the method had said. `selfsort score --labels` reads it."],
  ["folders", "Folders", "A copy of every image in a folder named after its cluster; those marked wrong in a folder of their own."],
  ["model-input", "Model input", "An npz with the pixels and the corrected labels, without the images marked wrong: a source for `selfsort fit`, or something to train on."],
];

export function showExport(): void {
  const dialog = h("dialog", { class: "export", "aria-labelledby": "export-title" });
  dialog.addEventListener("close", () => dialog.remove());
  const cards = KINDS.map(([kind, title, text]) => {
    const result = h("p", { class: "result", role: "status" });
    const button = h("button", { type: "button", "data-export": kind, click: () => void write(kind, button, result) }, "Write");
    const told = text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
    return h("li", {}, h("div", {}, h("h3", {}, title), h("p", { class: "hint" }, ...told), result), button);
  });
  const close = h("button", { type: "button", click: () => dialog.close() }, "Close");
  dialog.append(h("h2", { id: "export-title" }, "Export"), h("ul", { class: "exports" }, ...cards), h("div", { class: "buttons" }, close));
  document.body.append(dialog);
  dialog.showModal();
}

async function write(kind: ExportKind, button: HTMLButtonElement, result: HTMLElement): Promise<void> {
  button.disabled = true;
  fill(result, "Writing…");
  try {
    const { path, file } = await writeExport(kind);
    const link = file !== null && h("a", { href: address("api/exports/{name}", { name: file }), download: file }, "Download");
    fill(result, h("code", {}, path), link);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    fill(result, error.message);
  } finally {
    button.disabled = false;
  }
}

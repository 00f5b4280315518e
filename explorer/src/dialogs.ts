/** Small windows that ask for one thing. Each resolves to the answer, or to null if it was closed. */

import type { Cluster, HistoryEntry } from "./api";
import { h } from "./dom";
import type { Tiles } from "./tiles";
import { count, plural } from "./words";

function open<T>(title: string, build: (answer: (value: T | null) => void) => (Node | string)[], className = ""): Promise<T | null> {
  return new Promise((resolve) => {
    let found: T | null = null;
    const answer = (value: T | null) => {
      found = value;
      dialog.close();
    };
    const body = build(answer);
    const heading = h("h2", { id: "dialog-title" }, title);
    const dialog = h("dialog", { class: className, "aria-labelledby": "dialog-title" }, heading, ...body);
    // Last, so that it is not what has the focus at first; a telephone has no Escape key.
    dialog.append(h("button", { type: "button", class: "close quiet", "aria-label": "Close", click: () => dialog.close() }, "×"));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(found);
    });
    // A click on the backdrop is a click on the dialog itself, outside of its content.
    dialog.addEventListener("click", (event) => {
      const box = dialog.getBoundingClientRect();
      const isInside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
      if (event.target === dialog && event.detail > 0 && !isInside) dialog.close();
    });
    document.body.append(dialog);
    dialog.showModal();
    // What is typed replaces what was proposed.
    dialog.querySelector<HTMLInputElement>("input[autofocus]")?.select();
  });
}

function buttons(label: string, close: () => void): HTMLElement {
  return h("div", { class: "buttons" }, h("button", { type: "button", click: close }, "Cancel"), h("button", { type: "submit", class: "strong" }, label));
}

function form(submit: (event: SubmitEvent) => void, ...children: (Node | string)[]): HTMLFormElement {
  return h("form", { submit: (event: SubmitEvent) => { event.preventDefault(); submit(event); } }, ...children);
}

export function askName(cluster: Cluster): Promise<string | null> {
  return open("Rename", (answer) => {
    const isNumbered = cluster.name === `Cluster ${cluster.id}`;
    const input = h("input", { type: "text", maxlength: 80, value: isNumbered ? "" : cluster.name, placeholder: cluster.name, autocomplete: "off", "aria-label": "Name", autofocus: true });
    const hint = h("p", { class: "hint" }, "The name is used for labels and folders you export. Leave it empty to go back to the number.");
    return [form(() => answer(input.value), input, hint, buttons("Rename", () => answer(null)))];
  });
}

export function askParts(cluster: Cluster): Promise<number | null> {
  return open(`Split ${cluster.name}`, (answer) => {
    const most = Math.min(20, cluster.size);
    const input = h("input", { type: "number", min: 2, max: most, value: 2, "aria-label": "Parts", autofocus: true });
    const hint = h("p", { class: "hint" }, "Its images are clustered again by their features. The largest part keeps the name, the others become new clusters.");
    return [form(() => answer(input.valueAsNumber), h("label", { class: "inline" }, "Into ", input, " parts"), hint, buttons("Split", () => answer(null)))];
  });
}

export interface Choice {
  title: string;
  hint: string;
  clusters: Cluster[];
  /** Offer a new cluster as well. */
  hasNew: boolean;
}

/** A cluster that does not exist yet; its name may be empty. */
export interface NewCluster {
  name: string;
}

/** Pick a cluster, or a new one, which is called as was typed. */
export function pickCluster(choice: Choice, tiles: Tiles): Promise<number | NewCluster | null> {
  return open<number | NewCluster>(
    choice.title,
    (answer) => {
      const input = h("input", { type: "search", maxlength: 80, placeholder: choice.hasNew ? "Type to find, or to name a new one" : "Type to find", "aria-label": "Find a cluster", autocomplete: "off", spellcheck: "false", autofocus: true });
      const list = h("ul", { class: "choices" });
      const none = h("p", { class: "hint", hidden: true }, choice.hasNew ? "No cluster has this name: press Enter for a new one." : "No cluster has this name.");
      const line = (value: number | NewCluster, ...content: Node[]) => h("li", {}, h("button", { type: "button", click: () => answer(value) }, ...content));
      const render = () => {
        const sought = input.value.trim().toLowerCase();
        const found = choice.clusters.filter((cluster) => cluster.name.toLowerCase().includes(sought));
        const lines = found.map((cluster) => {
          const canvas = h("canvas", { class: "cover", "aria-hidden": "true" });
          tiles.draw(cluster.cover, canvas);
          return line(cluster.id, canvas, h("span", { class: "label" }, cluster.name), h("span", { class: "size" }, count(cluster.size)));
        });
        const name = input.value.trim();
        const isTaken = choice.clusters.some((cluster) => cluster.name.toLowerCase() === sought);
        const label = name && !isTaken ? `New cluster “${name}”` : "New cluster";
        if (choice.hasNew) lines.unshift(line({ name: isTaken ? "" : name }, h("span", { class: "cover plus", "aria-hidden": "true" }, "+"), h("span", { class: "label" }, label)));
        none.hidden = found.length > 0;
        list.replaceChildren(...lines);
      };
      const focusable = () => [input, ...list.querySelectorAll("button")];
      const steer = (event: KeyboardEvent) => {
        const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
        if (!step) return;
        event.preventDefault();
        const all = focusable();
        all[Math.max(0, Math.min(all.length - 1, all.indexOf(document.activeElement as HTMLInputElement) + step))]?.focus();
      };
      const submit = () => {
        const sought = input.value.trim();
        const buttonsShown = [...list.querySelectorAll("button")];
        // With something typed the first cluster that fits is meant, not the new one above it.
        buttonsShown[sought && choice.hasNew && buttonsShown.length > 1 ? 1 : 0]?.click();
      };
      input.addEventListener("input", render);
      render();
      const body = form(submit, h("p", { class: "hint" }, choice.hint), input, none, list);
      body.addEventListener("keydown", steer);
      return [body];
    },
    "picker",
  );
}

const SHORTCUTS: [string, string][] = [
  ["← ↑ → ↓", "go from image to image (with Shift: select a range)"],
  ["Space", "select or let go"],
  ["Ctrl A", "select all images of the view"],
  ["Enter", "look at an image"],
  ["F", "while looking at it: full size, and back"],
  ["S", "more like the selected images"],
  ["D", "the stack of duplicates that an image is in"],
  ["M", "move the selected images"],
  ["X", "mark the selected images wrong, or right again"],
  ["J  K", "next, previous cluster"],
  ["R", "rename the cluster"],
  ["G", "merge the cluster with another"],
  ["T", "split the cluster"],
  ["Ctrl Z", "undo (also U)"],
  ["Ctrl Shift Z", "redo (also Shift U)"],
  ["+  −", "larger, smaller images"],
  ["/", "find a cluster"],
  ["C", "tree of the clusters, and another number of them"],
  ["E", "export"],
  ["Esc", "let go, go back"],
];

export async function showHelp(): Promise<void> {
  await open("Keyboard", () => {
    const rows = SHORTCUTS.map(([key, text]) => h("tr", {}, h("th", { scope: "row" }, ...key.split("  ").map((one) => h("kbd", {}, one))), h("td", {}, text)));
    return [h("table", { class: "keys" }, h("tbody", {}, ...rows)), h("p", { class: "hint" }, "Images can also be dragged onto a cluster in the list.")];
  });
}

export async function showHistory(entries: HistoryEntry[]): Promise<void> {
  await open(plural(entries.length, "edit"), () => {
    const lines = entries.map((entry) => {
      const when = new Date(entry.made_at);
      return h("li", {}, h("span", {}, entry.text), h("time", { datetime: entry.made_at }, Number.isNaN(when.valueOf()) ? "" : when.toLocaleString()));
    });
    return [h("p", { class: "hint" }, "Newest first. The labels of the run itself are never changed."), h("ol", { class: "history" }, ...lines)];
  });
}

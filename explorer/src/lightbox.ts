/** One image as large as there is, with what is known about it. */

import { type ImageFacts, address, getImage } from "./api";
import { action, fill, h } from "./dom";
import { count } from "./words";

export interface LightboxHost {
  count(): number;
  rowAt(index: number): number | undefined;
  clusterName(id: number): string;
  hasPicture(row: number): boolean;
  similar(row: number): void;
  /** In words, what it is in its stack of duplicates; empty if it is in none. */
  stackWords(row: number): string;
  openStack(row: number): void;
  move(row: number): void;
  mark(row: number, isWrong: boolean): Promise<void>;
  moved(index: number): void;
}

export function openLightbox(start: number, host: LightboxHost): void {
  let index = start;
  let isFull = false;
  const picture = h("div", { class: "picture", role: "group", "aria-label": "Picture", tabindex: -1 });
  const facts = h("div", { class: "facts" });
  const dialog = h("dialog", { class: "lightbox", "aria-label": "Image", tabindex: -1 }, picture, facts);

  const show = async (to: number): Promise<void> => {
    const row = host.rowAt(to);
    if (row === undefined) return;
    index = to;
    host.moved(index);
    const found = await getImage(row);
    if (host.rowAt(index) !== row) return; // the user has gone on
    const image = h("img", { src: address("api/pictures/{row}", { row, full: isFull }), alt: found.name, draggable: "false", click: () => press("Full") });
    const full = action("Full size", "F", () => void showFull(!isFull), { "aria-pressed": String(isFull), hidden: !isFull });
    image.addEventListener("load", () => {
      image.classList.toggle("enlarged", !isFull && Math.max(image.naturalWidth, image.naturalHeight) < 200);
      if (!isFull) full.hidden = image.naturalWidth <= image.clientWidth; // all of it is seen already
    });
    picture.classList.toggle("full", isFull);
    fill(picture, host.hasPicture(row) ? image : h("p", { class: "hint" }, "There is no picture of this image."));
    fill(facts, ...describe(found, full));
  };

  /** The picture pixel by pixel, to be scrolled, or as a whole. */
  const showFull = async (isWanted: boolean): Promise<void> => {
    isFull = isWanted;
    await show(index);
    if (isFull) picture.focus();
    else dialog.focus();
  };

  const describe = (found: ImageFacts, full: Node): Node[] => {
    const term = (name: string, value: string) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const stack = host.stackWords(found.row);
    const isMoved = found.cluster !== found.original_cluster;
    const leave = (run: () => void) => () => {
      dialog.close();
      run();
    };
    return [
      h("h2", { class: "file" }, found.name),
      h(
        "dl",
        {},
        term("Cluster", host.clusterName(found.cluster)),
        isMoved && term("Was in", `Cluster ${found.original_cluster}`),
        term("Confidence of the method", found.confidence.toFixed(2)),
        found.is_wrong && term("Mark", "wrong"),
        stack !== "" && term("Duplicates", stack),
      ),
      h(
        "div",
        { class: "stack" },
        full,
        action("More like this", "S", leave(() => host.similar(found.row))),
        stack && action("Its stack", "D", leave(() => host.openStack(found.row))),
        action("Move…", "M", leave(() => host.move(found.row))),
        action(found.is_wrong ? "Not wrong" : "Mark wrong", "X", () => void host.mark(found.row, !found.is_wrong).then(() => show(index))),
      ),
      h("p", { class: "hint" }, `${count(index + 1)} of ${count(host.count())}`),
    ];
  };

  const step = (by: number) => {
    const to = index + by;
    if (to < 0 || to >= host.count()) return;
    isFull = false;
    void show(to);
  };
  const press = (label: string) => [...facts.querySelectorAll("button")].find((button) => !button.hidden && button.textContent?.startsWith(label))?.click();
  dialog.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (isFull && event.key.startsWith("Arrow")) return; // they scroll
    const keys: Record<string, () => void> = {
      ArrowRight: () => step(1),
      ArrowLeft: () => step(-1),
      f: () => press("Full"),
      s: () => press("More"),
      d: () => press("Its stack"),
      m: () => press("Move"),
      x: () => (press("Mark"), press("Not")),
    };
    keys[event.key.length === 1 ? event.key.toLowerCase() : event.key]?.();
  });
  const previous = h("button", { type: "button", class: "turn left", "aria-label": "Previous image", click: () => step(-1) }, "‹");
  const next = h("button", { type: "button", class: "turn right", "aria-label": "Next image", click: () => step(1) }, "›");
  const close = h("button", { type: "button", class: "close quiet", "aria-label": "Close", click: () => dialog.close() }, "×");
  dialog.append(previous, next, close);
  dialog.addEventListener("cancel", (event) => {
    if (!isFull) return;
    event.preventDefault(); // Escape goes back by one step
    void showFull(false);
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  dialog.focus(); // keys work at once, and no button looks chosen
  void show(start);
}

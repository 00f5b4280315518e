/** The list of clusters: find one, go there, drop images on it. */

import type { Cluster, Overview } from "./api";
import { byId, fill, h } from "./dom";
import type { Tiles } from "./tiles";
import { type View, same } from "./views";
import { count, plural } from "./words";

export interface SidebarHost {
  go(view: View): void;
  drop(cluster: number): void;
}

export class Sidebar {
  private overview: Overview | null = null;
  private current: View | null = null;
  private readonly list = byId("clusters");
  private readonly views = byId("views");
  private readonly find = byId<HTMLInputElement>("find");
  private nStacks = 0;
  private covers: { row: number; canvas: HTMLCanvasElement; isDrawn: boolean }[] = [];

  constructor(
    private readonly tiles: Tiles,
    private readonly nImages: number,
    private readonly host: SidebarHost,
  ) {
    this.find.addEventListener("input", () => this.render());
    this.find.addEventListener("keydown", (event) => {
      const first = this.matching()[0];
      if (event.key === "Enter" && first) host.go({ kind: "cluster", id: first.id });
      if (event.key === "Escape" && this.find.value) {
        event.stopPropagation();
        this.find.value = "";
        this.render();
      }
    });
  }

  show(overview: Overview, current: View, nStacks = this.nStacks): void {
    this.nStacks = nStacks;
    this.overview = overview;
    this.current = current;
    this.render();
  }

  /** The next or previous cluster in the list, as it is filtered now. */
  neighbour(step: 1 | -1): number | null {
    const found = this.matching();
    const here = found.findIndex((cluster) => this.current?.kind === "cluster" && cluster.id === this.current.id);
    const to = here < 0 ? (step === 1 ? 0 : found.length - 1) : here + step;
    return found[to]?.id ?? null;
  }

  wanted(): number[] {
    return this.covers.filter((cover) => !cover.isDrawn).map((cover) => cover.row);
  }

  draw(): void {
    for (const cover of this.covers) if (!cover.isDrawn) cover.isDrawn = this.tiles.draw(cover.row, cover.canvas);
  }

  private matching(): Cluster[] {
    const sought = this.find.value.trim().toLowerCase();
    return this.overview?.clusters.filter((cluster) => cluster.name.toLowerCase().includes(sought)) ?? [];
  }

  private render(): void {
    const { overview } = this;
    if (!overview) return;
    const found = this.matching();
    fill(
      this.views,
      this.viewLine({ kind: "all" }, "All images", this.nImages),
      this.viewLine({ kind: "wrong" }, "Marked wrong", overview.n_wrong),
      this.viewLine({ kind: "moved" }, "Moved by you", overview.n_moved),
      this.nStacks > 0 && this.viewLine({ kind: "stacks" }, "Stacks of duplicates", this.nStacks),
    );
    byId("n-clusters").textContent = plural(overview.clusters.length, "cluster");
    byId("no-cluster").hidden = found.length > 0;
    this.covers = [];
    const largest = Math.max(1, ...overview.clusters.map((cluster) => cluster.size));
    fill(this.list, ...found.map((cluster) => this.line(cluster, largest)));
    this.draw();
    this.list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  private viewLine(view: View, label: string, size: number): HTMLElement {
    const isHere = this.current !== null && same(view, this.current);
    const go = () => this.host.go(view);
    return h("li", {}, h("button", { type: "button", "aria-current": isHere ? "page" : null, click: go }, h("span", { class: "label" }, label), h("span", { class: "size" }, count(size))));
  }

  private line(cluster: Cluster, largest: number): HTMLElement {
    const isHere = this.current?.kind === "cluster" && this.current.id === cluster.id;
    const canvas = h("canvas", { class: "cover", "aria-hidden": "true" });
    this.covers.push({ row: cluster.cover, canvas, isDrawn: false });
    const bar = h("span", { class: "share", "aria-hidden": "true" });
    bar.style.setProperty("--share", String(cluster.size / largest));
    const marked = cluster.n_wrong > 0 && h("span", { class: "flag", title: `${count(cluster.n_wrong)} marked wrong` }, count(cluster.n_wrong));
    const button = h(
      "button",
      { type: "button", class: "cluster", "aria-current": isHere ? "page" : null, "data-cluster": cluster.id, click: () => this.host.go({ kind: "cluster", id: cluster.id }) },
      canvas,
      h("span", { class: "words" }, h("span", { class: "label" }, cluster.name), bar),
      marked,
      h("span", { class: "size" }, count(cluster.size)),
    );
    this.catchDrops(button, cluster.id);
    return h("li", {}, button);
  }

  private catchDrops(button: HTMLElement, cluster: number): void {
    const isOurs = (event: DragEvent) => event.dataTransfer?.types.includes("application/x-selfsort") ?? false;
    button.addEventListener("dragover", (event) => {
      if (!isOurs(event)) return;
      event.preventDefault();
      button.classList.add("target");
    });
    button.addEventListener("dragleave", () => button.classList.remove("target"));
    button.addEventListener("drop", (event) => {
      button.classList.remove("target");
      if (!isOurs(event)) return;
      event.preventDefault();
      this.host.drop(cluster);
    });
  }
}

/** The images of a view as a grid. Only the tiles near what is seen exist; they are used again while scrolling. */

import type { Listing } from "./api";
import { h } from "./dom";
import { type Grid, fitGrid, place, scrollFor, stepTo, tilesBetween, totalHeight } from "./layout";
import { Selection } from "./selection";
import { type Stacks, badge as badgeOf } from "./stacks";
import type { Tiles } from "./tiles";

const GAP = 8;
/** Screens of tiles kept above and below what is seen, so that scrolling never runs ahead of them. */
const OVERSCAN = 1;
/** Screens of pictures fetched before they are seen, in the direction of scrolling and against it. */
const AHEAD = 6;
const BEHIND = 1;

interface Tile {
  element: HTMLElement;
  canvas: HTMLCanvasElement;
  caption: HTMLElement;
  badge: HTMLElement;
  row: number;
  isDrawn: boolean;
  /** What it looks like, so that a tile that has not changed is left alone. */
  look: string;
}

export interface GalleryHost {
  nameOf(row: number): string;
  /** These images are in sight. */
  seen(rows: number[]): void;
  clusterName(id: number): string;
  open(index: number): void;
  openStack(id: number): void;
  selectionChanged(): void;
}

const EMPTY: Listing = { rows: [], wrong: [], moved: [], clusters: null, scores: null };

export class Gallery {
  readonly selection: Selection;
  listing: Listing = EMPTY;
  private wrong = new Set<number>();
  private moved = new Set<number>();
  /** Duplicates of which one would be kept; whether the view is about them. */
  private stacks: Stacks | null = null;
  private isAmongStacks = false;
  private active = 0;
  private wanted = 92;
  private grid: Grid = { columns: 1, width: 1, height: 1, gap: GAP };
  private readonly shown = new Map<number, Tile>();
  private readonly spare: Tile[] = [];
  private isScheduled = false;
  private lastTop = 0;
  private direction: 1 | -1 = 1;

  constructor(
    readonly box: HTMLElement,
    private readonly sheet: HTMLElement,
    private readonly tiles: Tiles,
    private readonly aspect: number,
    private readonly host: GalleryHost,
    /** Images that are wanted besides those in view. */
    private readonly alsoWanted: () => number[],
  ) {
    this.selection = new Selection(() => {
      this.refresh();
      host.selectionChanged();
    });
    box.addEventListener("scroll", () => this.schedule(), { passive: true });
    box.addEventListener("click", (event) => this.click(event));
    box.addEventListener("dblclick", (event) => {
      const index = this.indexAt(event);
      if (index !== null) host.open(index);
    });
    box.addEventListener("keydown", (event) => this.keydown(event));
    box.addEventListener("dragstart", (event) => this.drag(event));
    new ResizeObserver(() => this.resize()).observe(box);
  }

  show(listing: Listing, isSameView: boolean, isAmongStacks = false): void {
    this.isAmongStacks = isAmongStacks;
    this.listing = listing;
    this.wrong = new Set(listing.wrong);
    this.moved = new Set(listing.moved);
    const inView = new Set(listing.rows);
    for (const row of this.selection.rows) if (!inView.has(row)) this.selection.rows.delete(row);
    if (!isSameView) {
      this.active = 0;
      this.box.scrollTop = 0;
    }
    this.active = Math.min(this.active, Math.max(0, listing.rows.length - 1));
    this.resize();
    this.host.selectionChanged();
  }

  setSize(wanted: number): void {
    this.wanted = wanted;
    this.resize();
  }

  /** Draw again what may have changed: pictures that came, names, marks. */
  refresh(): void {
    for (const [index, tile] of this.shown) this.dress(tile, index);
    this.want();
  }

  setStacks(stacks: Stacks): void {
    this.stacks = stacks;
    this.refresh();
  }

  /** The image that keys act on. */
  get activeRow(): number | undefined {
    return this.listing.rows[this.active];
  }

  isWrong(row: number): boolean {
    return this.wrong.has(row);
  }

  activate(index: number, isKept = false): void {
    this.active = index;
    const to = scrollFor(this.grid, index, this.box.scrollTop, this.box.clientHeight - 2 * GAP);
    if (to !== null) this.box.scrollTop = to;
    if (!isKept) this.selection.only(this.listing.rows, index);
    this.render();
  }

  private resize(): void {
    const style = getComputedStyle(this.box);
    const available = this.box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    // Keep the image in the upper left corner there while columns come and go.
    const corner = Math.floor(this.box.scrollTop / (this.grid.height + this.grid.gap)) * this.grid.columns;
    const before = this.grid;
    this.grid = fitGrid(available, this.wanted, this.aspect, GAP);
    this.sheet.style.height = `${totalHeight(this.grid, this.listing.rows.length)}px`;
    if (before.columns !== this.grid.columns || before.width !== this.grid.width) {
      this.box.scrollTop = corner ? place(this.grid, corner).top : this.box.scrollTop;
    }
    for (const index of [...this.shown.keys()]) this.retire(index);
    this.render();
  }

  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.render();
    });
  }

  private render(): void {
    const view = this.box.clientHeight;
    const top = this.box.scrollTop;
    const { first, end } = tilesBetween(this.grid, this.listing.rows.length, top - OVERSCAN * view, top + (1 + OVERSCAN) * view);
    for (const index of [...this.shown.keys()]) if (index < first || index >= end) this.retire(index);
    for (let index = first; index < end; index += 1) {
      const tile = this.shown.get(index) ?? this.take(index);
      this.dress(tile, index);
    }
    const active = this.shown.get(this.active);
    if (active && this.listing.rows.length) this.box.setAttribute("aria-activedescendant", active.element.id);
    else this.box.removeAttribute("aria-activedescendant");
    this.want();
  }

  /** Ask for pictures: first those in sight, then what others show, then what will be seen next. */
  private want(): void {
    const { rows } = this.listing;
    const view = this.box.clientHeight;
    const top = this.box.scrollTop;
    if (top !== this.lastTop) this.direction = top > this.lastTop ? 1 : -1;
    this.lastTop = top;
    const seen = tilesBetween(this.grid, rows.length, top, top + view);
    const isDown = this.direction === 1;
    const near = tilesBetween(this.grid, rows.length, top - (isDown ? BEHIND : AHEAD) * view, top + (isDown ? 1 + AHEAD : 1 + BEHIND) * view);
    const below = rows.slice(seen.end, near.end);
    const above = rows.slice(near.first, seen.first).reverse();
    const inSight = rows.slice(seen.first, seen.end);
    this.host.seen(inSight);
    this.tiles.want([...inSight, ...this.alsoWanted(), ...(isDown ? [...below, ...above] : [...above, ...below])]);
  }

  private take(index: number): Tile {
    let tile = this.spare.pop();
    if (!tile) {
      const canvas = h("canvas", { "aria-hidden": "true" });
      const caption = h("span", { class: "caption" });
      const badge = h("span", { class: "badge", "aria-hidden": "true" });
      const element = h("div", { class: "tile", role: "option", draggable: "true" }, canvas, h("span", { class: "tick", "aria-hidden": "true" }), badge, caption);
      tile = { element, canvas, caption, badge, row: -1, isDrawn: false, look: "" };
      this.sheet.append(element);
    }
    const { left, top } = place(this.grid, index);
    tile.element.hidden = false;
    tile.element.style.transform = `translate(${left}px, ${top}px)`;
    tile.element.style.width = `${this.grid.width}px`;
    tile.element.style.height = `${this.grid.height}px`;
    tile.element.dataset.index = String(index);
    tile.element.id = `tile-${index}`;
    this.shown.set(index, tile);
    return tile;
  }

  private retire(index: number): void {
    const tile = this.shown.get(index);
    if (!tile) return;
    this.shown.delete(index);
    tile.element.hidden = true;
    tile.element.removeAttribute("id");
    this.spare.push(tile);
  }

  private dress(tile: Tile, index: number): void {
    const row = this.listing.rows[index];
    if (row === undefined) return;
    const { element } = tile;
    if (tile.row !== row) {
      tile.row = row;
      tile.isDrawn = false;
    }
    if (!tile.isDrawn) tile.isDrawn = this.tiles.draw(row, tile.canvas);
    const name = this.host.nameOf(row);
    const cluster = this.listing.clusters?.[index];
    const where = cluster === undefined ? "" : this.host.clusterName(cluster);
    const score = this.listing.scores?.[index];
    const isMissing = this.tiles.find(row) === null;
    const isWrong = this.wrong.has(row);
    const isMoved = this.moved.has(row);
    const place = this.stacks?.of(row);
    const said = [name, where, this.stacks?.words(row) ?? "", score === undefined ? "" : `similarity ${score.toFixed(2)}`, isWrong ? "marked wrong" : "", isMoved ? "moved by you" : ""];
    const words = said.filter(Boolean).join(" · ");
    const classes = ["tile", !tile.isDrawn && "pending", isMissing && "missing", isWrong && "wrong", isMoved && "moved", place?.isBest && "best", index === this.active && "active"];
    const isSelected = this.selection.rows.has(row);
    const look = `${index} ${this.isAmongStacks} ${isSelected} ${classes.join(" ")} ${words}`;
    if (tile.look === look) return;
    tile.look = look;
    element.className = classes.filter(Boolean).join(" ");
    element.setAttribute("aria-selected", String(isSelected));
    element.setAttribute("aria-posinset", String(index + 1));
    element.setAttribute("aria-setsize", String(this.listing.rows.length));
    element.setAttribute("aria-label", words);
    element.title = words;
    tile.badge.textContent = place ? badgeOf(place, this.isAmongStacks) : "";
    tile.caption.textContent = isMissing ? name : where;
  }

  private indexAt(event: Event): number | null {
    const tile = event.target instanceof Element ? event.target.closest<HTMLElement>(".tile") : null;
    return tile?.dataset.index === undefined ? null : Number(tile.dataset.index);
  }

  private click(event: MouseEvent): void {
    const index = this.indexAt(event);
    if (index === null) {
      this.selection.clear();
      return;
    }
    this.active = index;
    const isTick = event.target instanceof Element && event.target.classList.contains("tick");
    const stack = event.target instanceof Element && event.target.classList.contains("badge") ? this.stackAt(index) : undefined;
    if (stack !== undefined) {
      this.host.openStack(stack);
      return;
    }
    if (event.shiftKey) this.selection.extend(this.listing.rows, index);
    else if (event.ctrlKey || event.metaKey || isTick) this.selection.toggle(this.listing.rows, index);
    else this.selection.only(this.listing.rows, index);
    this.render();
  }

  private stackAt(index: number): number | undefined {
    const row = this.listing.rows[index];
    return row === undefined ? undefined : this.stacks?.of(row)?.id;
  }

  private keydown(event: KeyboardEvent): void {
    const { rows } = this.listing;
    if (!rows.length || event.altKey) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "a") {
      event.preventDefault();
      this.selection.all(rows);
      return;
    }
    if (event.ctrlKey || event.metaKey) return;
    if (event.key === " ") {
      event.preventDefault();
      this.selection.toggle(rows, this.active);
      return;
    }
    if (event.key === "Enter") {
      event.preventDefault();
      this.host.open(this.active);
      return;
    }
    const to = stepTo(event.key, this.active, this.grid, rows.length, this.box.clientHeight);
    if (to === null) return;
    event.preventDefault();
    this.activate(to, true);
    if (event.shiftKey) this.selection.extend(rows, to);
    else this.selection.only(rows, to);
  }

  private drag(event: DragEvent): void {
    const index = this.indexAt(event);
    const row = index === null ? undefined : this.listing.rows[index];
    if (index === null || row === undefined || !event.dataTransfer) return;
    if (!this.selection.rows.has(row)) this.selection.only(this.listing.rows, index);
    event.dataTransfer.setData("application/x-selfsort", "rows");
    event.dataTransfer.effectAllowed = "move";
  }
}

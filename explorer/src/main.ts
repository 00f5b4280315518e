/** The page: what is shown, what happens on an edit, and who tells whom. */

import * as api from "./api";
import { askName, askParts, pickCluster, showHelp, showHistory } from "./dialogs";
import { action, byId, fill } from "./dom";
import { showExport } from "./exporting";
import { Gallery } from "./gallery";
import { Head } from "./head";
import { listenForKeys } from "./keys";
import { learn, resumeLearning } from "./learning";
import { openLightbox } from "./lightbox";
import { Names } from "./names";
import { Sidebar } from "./sidebar";
import { Stacks } from "./stacks";
import { setUpTheme } from "./theme";
import { Tiles } from "./tiles";
import { toast } from "./toast";
import { showTree } from "./tree";
import { type View, fromHash, same, toHash } from "./views";
import { count, plural } from "./words";

class Page {
  private view: View;
  private order: api.Order = "typical";
  private stacks = new Stacks([]);
  private loading = 0;
  private drawTree = () => {};
  private readonly tiles: Tiles;
  private readonly names = new Names(api.getNames, () => {
    this.gallery.refresh();
    this.showWords();
  });
  private readonly gallery: Gallery;
  private readonly sidebar: Sidebar;
  private readonly head: Head;

  constructor(
    private readonly run: api.Run,
    private overview: api.Overview,
  ) {
    this.tiles = new Tiles(run, api.getSheet, () => {
      this.gallery.refresh();
      this.sidebar.draw();
      this.drawTree();
    });
    this.sidebar = new Sidebar(this.tiles, run.n_images, {
      go: (view) => this.go(view),
      drop: (cluster) => void this.moveTo([...this.gallery.selection.rows], cluster),
    });
    const host = {
      nameOf: (row: number) => this.names.of(row),
      seen: (rows: number[]) => this.names.want([...(this.view.kind === "like" ? this.view.rows : []), ...rows]),
      clusterName: (id: number) => this.clusterName(id),
      open: (index: number) => this.look(index),
      openStack: (id: number) => this.go({ kind: "stack", id }),
      selectionChanged: () => this.showSelection(),
    };
    this.gallery = new Gallery(byId("gallery"), byId("canvas"), this.tiles, run.tile_width / run.tile_height, host, () => this.sidebar.wanted());
    this.head = new Head({
      rename: () => void this.rename(),
      merge: () => void this.merge(),
      split: () => void this.split(),
      setOrder: (order) => {
        this.order = order;
        void this.reload(false);
      },
      setSize: (size) => this.gallery.setSize(size),
      nameOf: (row) => this.names.of(row),
    });
    this.view = fromHash(location.hash, run.n_images) ?? this.home();
    this.setUp();
  }

  private setUp(): void {
    const { run } = this;
    byId("run").textContent = `${run.name} · ${run.method} · ${plural(run.n_images, "image")}`;
    this.showState(run);
    if (!this.isFinished()) follow(run, (now) => this.goOn(now));
    setUpTheme(byId("theme"));
    byId("undo").addEventListener("click", () => void this.travel(api.undo, "Undone"));
    byId("redo").addEventListener("click", () => void this.travel(api.redo, "Redone"));
    byId("history").addEventListener("click", () => void this.attempt(async () => showHistory(await api.getHistory())));
    byId("export").addEventListener("click", showExport);
    byId("tree").addEventListener("click", () => void this.showTree());
    byId("learn").addEventListener("click", () => void this.attempt(learn));
    if (this.isFinished()) void this.attempt(resumeLearning);
    byId("help").addEventListener("click", () => void showHelp());
    window.addEventListener("hashchange", () => {
      const view = fromHash(location.hash, run.n_images) ?? this.home();
      if (!same(view, this.view)) void this.show(view);
    });
    listenForKeys(this.keys());
    void this.reload(false);
    void this.attempt(async () => {
      this.stacks = new Stacks(await api.getStacks());
      this.sidebar.show(this.overview, this.view, this.stacks.count);
      this.gallery.setStacks(this.stacks);
    });
  }

  private isFinished(): boolean {
    return this.run.state === "finished";
  }

  /** Say where the pictures come from and, of a run that is not finished, how far it is. */
  private showState(run: api.Run): void {
    document.body.classList.toggle("unfinished", run.state !== "finished");
    const note = byId("note");
    note.textContent = [stateWords(run), run.note].filter(Boolean).join(" ");
    note.hidden = note.textContent === "";
  }

  private async goOn(run: api.Run): Promise<void> {
    if (run.version !== this.run.version) {
      this.run.version = run.version;
      this.overview = await api.getOverview();
      await this.settle();
    }
    this.showState(run);
  }

  private keys(): Record<string, () => void> {
    const all = this.allKeys();
    if (this.isFinished()) return all;
    return Object.fromEntries(["?", "/", "j", "k", "d", "+", "=", "-", "Escape"].map((key) => [key, all[key] ?? (() => {})]));
  }

  private allKeys(): Record<string, () => void> {
    const ifCluster = (run: () => void) => () => this.cluster() && run();
    const undo = () => void (this.overview.undo && this.travel(api.undo, "Undone"));
    const redo = () => void (this.overview.redo && this.travel(api.redo, "Redone"));
    return {
      "?": () => void showHelp(),
      "/": () => byId("find").focus(),
      j: () => this.step(1),
      k: () => this.step(-1),
      s: () => this.similar(this.selected()),
      d: () => this.openStackOf(this.selected()[0] ?? this.gallery.activeRow),
      m: () => void this.move(this.selected()),
      x: () => void this.mark(this.selected()),
      r: ifCluster(() => void this.rename()),
      g: ifCluster(() => void this.merge()),
      t: ifCluster(() => void this.split()),
      e: showExport,
      c: () => void this.showTree(),
      u: undo,
      "Ctrl z": undo,
      "Shift u": redo,
      "Ctrl Shift z": redo,
      "Ctrl y": redo,
      "+": () => this.head.zoom(16),
      "=": () => this.head.zoom(16),
      "-": () => this.head.zoom(-16),
      Escape: () => this.escape(),
    };
  }

  // --- showing ---------------------------------------------------------------------------------------------

  private home(): View {
    const [first] = this.overview.clusters;
    return first ? { kind: "cluster", id: first.id } : { kind: "all" };
  }

  private go(view: View): void {
    if (same(view, this.view)) return;
    history.pushState(null, "", toHash(view));
    void this.show(view);
  }

  private async show(view: View): Promise<void> {
    this.view = view;
    this.gallery.selection.clear();
    await this.reload(false);
    byId("gallery").focus({ preventScroll: true });
  }

  /** Fetch the images of the view; an answer that comes after the user has gone on is dropped. */
  private async reload(isSameView: boolean): Promise<void> {
    const turn = (this.loading += 1);
    this.sidebar.show(this.overview, this.view);
    await this.attempt(async () => {
      const listing = await this.fetchListing();
      if (turn !== this.loading) return;
      this.gallery.show(listing, isSameView, this.view.kind === "stack" || this.view.kind === "stacks");
      this.showWords();
    });
  }

  private fetchListing(): Promise<api.Listing> {
    const { view } = this;
    if (view.kind === "like") return api.getSimilar(view.rows);
    if (view.kind === "stack") return this.fetchStack(view.id);
    const order = this.orderOf(view);
    return api.getRows(view.kind === "cluster" ? { cluster: view.id, order } : { view: view.kind, order });
  }

  private async fetchStack(id: number): Promise<api.Listing> {
    const all = await api.getRows({ view: "stacks" });
    const stacks = this.stacks.count ? this.stacks : new Stacks(await api.getStacks());
    const wanted = new Set(stacks.rows(id));
    const keep = (rows: number[]) => rows.filter((row) => wanted.has(row));
    return { ...all, rows: keep(all.rows), wrong: keep(all.wrong), moved: keep(all.moved), clusters: all.clusters?.filter((_, i) => wanted.has(all.rows[i] as number)) ?? null };
  }

  private openStackOf(row: number | undefined): void {
    const place = row === undefined ? undefined : this.stacks.of(row);
    if (place) this.go({ kind: "stack", id: place.id });
  }

  private orderOf(view: View): api.Order {
    const needsCentre = this.order === "typical" || this.order === "borderline";
    return view.kind !== "cluster" && needsCentre ? "name" : this.order;
  }

  private showWords(): void {
    const { overview, view } = this;
    const nShown = this.gallery.listing.rows.length;
    this.head.show(view, overview, this.orderOf(view), nShown);
    const undo = byId<HTMLButtonElement>("undo");
    const redo = byId<HTMLButtonElement>("redo");
    const past = byId<HTMLButtonElement>("history");
    undo.disabled = overview.undo === null;
    undo.title = overview.undo ? `Undo: ${overview.undo} (Ctrl Z)` : "Nothing to undo";
    redo.disabled = overview.redo === null;
    redo.title = overview.redo ? `Redo: ${overview.redo} (Ctrl Shift Z)` : "Nothing to redo";
    past.disabled = overview.n_edits === 0;
    past.textContent = overview.n_edits ? plural(overview.n_edits, "edit") : "No edits";
    byId("learn").hidden = overview.n_edits === 0 || !this.isFinished();
    const empty = byId("empty");
    empty.hidden = nShown > 0;
    if (!nShown) fill(empty, ...this.emptyWords());
  }

  private emptyWords(): (Node | string)[] {
    const heading = document.createElement("h2");
    const text = document.createElement("p");
    const words: Record<View["kind"], [string, string]> = {
      wrong: ["Nothing is marked wrong", "Select images that do not belong where they are and press X. They gather here, and can be moved together."],
      moved: ["Nothing was moved", "Images that you move, merge or split into another cluster are listed here."],
      cluster: ["No such cluster", "It was merged into another, or emptied. Choose one from the list."],
      stacks: ["No stacks", "Nobody has looked for duplicates: selfsort duplicates RUN does."],
      stack: ["No such stack", "Choose one from the list of stacks."],
      like: ["Nothing is like this", "There are no other images."],
      all: ["No images", "This run has none."],
    };
    [heading.textContent, text.textContent] = words[this.view.kind];
    return [heading, text];
  }

  private showSelection(): void {
    const bar = byId("selection");
    const rows = this.selected();
    bar.hidden = !rows.length || !this.isFinished();
    if (bar.hidden) return;
    const areWrong = rows.every((row) => this.gallery.isWrong(row));
    const said = document.createElement("span");
    said.className = "n-selected";
    said.textContent = `${count(rows.length)} selected`;
    fill(
      bar,
      said,
      action("More like this", "S", () => this.similar(rows), { id: "similar" }),
      action("Move…", "M", () => void this.move(rows), { id: "move" }),
      action(areWrong ? "Not wrong" : "Mark wrong", "X", () => void this.mark(rows), { id: "mark" }),
      action("Clear", "Esc", () => this.gallery.selection.clear(), { class: "quiet" }),
    );
  }

  private look(index: number): void {
    const { gallery } = this;
    openLightbox(index, {
      count: () => gallery.listing.rows.length,
      rowAt: (at) => gallery.listing.rows[at],
      clusterName: (id) => this.clusterName(id),
      hasPicture: (row) => this.tiles.find(row) !== null,
      similar: (row) => this.similar([row]),
      stackWords: (row) => this.stacks.words(row),
      openStack: (row) => this.openStackOf(row),
      move: (row) => void this.move([row]),
      mark: (row, isWrong) => this.edit({ kind: "mark", rows: [row], is_wrong: isWrong }, () => ""),
      moved: (at) => gallery.activate(at),
    });
  }

  private step(by: 1 | -1): void {
    const id = this.sidebar.neighbour(by);
    if (id !== null) this.go({ kind: "cluster", id });
  }

  private escape(): void {
    if (document.activeElement instanceof HTMLInputElement) document.activeElement.blur();
    else if (this.selected().length) this.gallery.selection.clear();
    else if (this.view.kind === "like" || this.view.kind === "stack") history.back();
  }

  private async showTree(): Promise<void> {
    await this.attempt(async () => {
      this.drawTree = showTree(await api.getTree(), this.tiles);
    });
  }

  // --- editing ---------------------------------------------------------------------------------------------

  private similar(rows: number[]): void {
    if (rows.length) this.go({ kind: "like", rows: rows.slice(0, 100) });
  }

  private async rename(): Promise<void> {
    const cluster = this.cluster();
    const name = cluster && (await askName(cluster));
    if (!cluster || name === null || name === undefined) return;
    await this.edit({ kind: "rename", cluster: cluster.id, name }, () => `Renamed to ${this.clusterName(cluster.id)}.`);
  }

  private async merge(): Promise<void> {
    const cluster = this.cluster();
    if (!cluster) return;
    const clusters = this.overview.clusters.filter((one) => one.id !== cluster.id);
    const hint = `All images of the cluster you choose come to ${cluster.name}. A name that you gave it stays; one that was proposed goes, for it spoke of a part only.`;
    const other = await pickCluster({ title: `Merge ${cluster.name} with`, hint, clusters, hasNew: false }, this.tiles);
    if (typeof other !== "number") return;
    const name = this.clusterName(other);
    await this.edit({ kind: "merge", clusters: [cluster.id, other], into: cluster.id }, () => `${name} is now part of ${cluster.name}.`);
  }

  private async split(): Promise<void> {
    const cluster = this.cluster();
    const parts = cluster && (await askParts(cluster));
    if (!cluster || !parts) return;
    toast(`Splitting ${cluster.name}…`);
    await this.edit({ kind: "split", cluster: cluster.id, parts }, (found) => `${cluster.name} is now ${plural(found.length, "cluster")}: ${found.map((id) => this.clusterName(id)).join(", ")}.`);
  }

  private async move(rows: number[]): Promise<void> {
    if (!rows.length) return;
    const here = this.cluster()?.id;
    const clusters = this.overview.clusters.filter((cluster) => cluster.id !== here);
    const title = `Move ${plural(rows.length, "image")} to`;
    const to = await pickCluster({ title, hint: "Press Enter for the first one that fits.", clusters, hasNew: true }, this.tiles);
    if (to === null) return;
    await (typeof to === "number" ? this.moveTo(rows, to) : this.moveTo(rows, null, to.name));
  }

  private async moveTo(rows: number[], to: number | null, name = ""): Promise<void> {
    if (!rows.length || !this.isFinished() || (to !== null && to === this.cluster()?.id)) return;
    await this.edit({ kind: "move", rows, to, name }, ([id]) => `${plural(rows.length, "image")} moved to ${id === undefined ? "another cluster" : this.clusterName(id)}.`);
  }

  private async mark(rows: number[]): Promise<void> {
    if (!rows.length) return;
    const isWrong = !rows.every((row) => this.gallery.isWrong(row));
    await this.edit({ kind: "mark", rows, is_wrong: isWrong }, () => `${plural(rows.length, "image")} marked ${isWrong ? "wrong" : "right"}.`);
  }

  private async edit(edit: api.EditRequest, say: (clusters: number[]) => string): Promise<void> {
    await this.attempt(async () => {
      const { overview, clusters } = await api.makeEdit(edit);
      this.overview = overview;
      if (edit.kind !== "mark") this.gallery.selection.clear();
      await this.settle(clusters[0]);
      const text = say(clusters);
      if (text) toast(text, { action: { label: "Undo", run: () => void this.travel(api.undo, "Undone") } });
    });
  }

  private async travel(go: () => Promise<api.Overview>, said: string): Promise<void> {
    const what = go === api.undo ? this.overview.undo : this.overview.redo;
    await this.attempt(async () => {
      this.overview = await go();
      await this.settle();
      toast(`${said}: ${what}.`);
    });
  }

  /** Show the same view again, or where its images have gone. */
  private async settle(instead?: number): Promise<void> {
    const isGone = this.view.kind === "cluster" && !this.cluster();
    if (isGone) {
      const id = instead !== undefined && this.overview.clusters.some((one) => one.id === instead) ? instead : undefined;
      this.view = id === undefined ? this.home() : { kind: "cluster", id };
      history.replaceState(null, "", toHash(this.view));
    }
    await this.reload(!isGone);
  }

  private async attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof api.Refused)) throw error;
      toast(error.message, { isProblem: true });
    }
  }

  private selected(): number[] {
    return [...this.gallery.selection.rows];
  }

  private cluster(): api.Cluster | undefined {
    const { view } = this;
    return view.kind === "cluster" ? this.overview.clusters.find((one) => one.id === view.id) : undefined;
  }

  private clusterName(id: number): string {
    return this.overview.clusters.find((cluster) => cluster.id === id)?.name ?? `Cluster ${id}`;
  }
}

function stateWords(run: api.Run): string {
  const doing = run.progress ? ` Now: ${run.progress}.` : "";
  switch (run.state) {
    case "starting":
      return `The pictures are being read.${doing}`;
    case "running":
      return `Still sorting; these are the groups so far. They can be changed when it is done.${doing}`;
    case "stopped":
      return "This run was stopped before its end. These are its groups so far, to be looked at only.";
    case "finished":
      return "";
  }
}

/** Ask again and again how far a run is; when it is done, or has begun, the page starts anew. */
function follow(first: api.Run, tell: (run: api.Run) => Promise<void>): void {
  const ask = async () => {
    try {
      const run = await api.getRun();
      if (run.state === "finished" || (first.state === "starting" && run.state !== "starting")) {
        location.reload();
        return;
      }
      await tell(run);
    } catch (error) {
      if (!(error instanceof api.Refused)) throw error;
      byId("note").textContent = error.message;
    }
    setTimeout(() => void ask(), 1500);
  };
  setTimeout(() => void ask(), 1500);
}

function wait(first: api.Run): void {
  document.body.classList.add("unfinished", "starting");
  const note = byId("note");
  const tell = async (run: api.Run) => {
    note.hidden = false;
    note.textContent = stateWords(run);
  };
  void tell(first);
  follow(first, tell);
}

async function start(): Promise<void> {
  try {
    const run = await api.getRun();
    if (run.state === "starting") wait(run);
    else new Page(run, await api.getOverview());
  } catch (error) {
    if (!(error instanceof api.Refused)) throw error;
    toast(error.message, { isProblem: true });
  }
}

void start();

/** The head of the gallery: what is shown, in which order, and what can be done with it. */

import type { Cluster, Order, Overview } from "./api";
import { action, byId, fill, h } from "./dom";
import type { View } from "./views";
import { count, plural, shorten } from "./words";

export interface HeadHost {
  rename(): void;
  merge(): void;
  split(): void;
  setOrder(order: Order): void;
  setSize(size: number): void;
  nameOf(row: number): string;
}

const ORDERS: [Order, string][] = [
  ["typical", "Most typical first"],
  ["borderline", "Least typical first"],
  ["unsure", "Least sure first"],
  ["name", "By name"],
];

export const SIZES = { least: 40, most: 220, start: 92 };

export class Head {
  private readonly title = h("h1", { id: "title" });
  private readonly facts = h("p", { class: "facts" });
  private readonly actions = h("div", { class: "actions" });
  private readonly order = h("select", { "aria-label": "Order", id: "order" });
  private readonly size = h("input", { type: "range", min: SIZES.least, max: SIZES.most, step: 4, value: SIZES.start, "aria-label": "Size of the images", id: "size" });

  constructor(private readonly host: HeadHost) {
    this.order.addEventListener("change", () => host.setOrder(this.order.value as Order));
    this.size.addEventListener("input", () => host.setSize(this.size.valueAsNumber));
    fill(
      byId("head"),
      h("div", { class: "titles" }, this.title, this.facts),
      h("div", { class: "tools" }, this.actions, this.order, h("label", { class: "size-label", title: "Size of the images (+ and −)" }, h("span", { "aria-hidden": "true" }, "▫"), this.size, h("span", { "aria-hidden": "true" }, "◻"))),
    );
  }

  zoom(by: number): void {
    this.size.valueAsNumber += by;
    this.host.setSize(this.size.valueAsNumber);
  }

  show(view: View, overview: Overview, order: Order, nShown: number): void {
    const cluster = view.kind === "cluster" ? overview.clusters.find((one) => one.id === view.id) : undefined;
    const [title, facts] = this.words(view, cluster, nShown);
    this.title.textContent = title;
    this.title.title = title;
    this.facts.textContent = facts;
    document.title = `${title} · selfsort`;
    const isCluster = cluster !== undefined;
    this.order.hidden = view.kind === "like" || view.kind === "stack" || view.kind === "stacks";
    // Only a cluster has a centre to be near to.
    const offered = ORDERS.filter(([value]) => isCluster || value === "unsure" || value === "name");
    fill(this.order, ...offered.map(([value, label]) => h("option", { value, selected: value === order }, label)));
    fill(
      this.actions,
      isCluster && action("Rename", "R", () => this.host.rename(), { id: "rename" }),
      isCluster && overview.clusters.length > 1 && action("Merge…", "G", () => this.host.merge(), { id: "merge" }),
      isCluster && cluster.size > 1 && action("Split…", "T", () => this.host.split(), { id: "split" }),
    );
  }

  private words(view: View, cluster: Cluster | undefined, nShown: number): [string, string] {
    if (cluster) {
      const wrong = cluster.n_wrong ? ` · ${count(cluster.n_wrong)} marked wrong` : "";
      const sure = document.body.classList.contains("unfinished") ? "" : ` · confidence ${cluster.confidence.toFixed(2)}`;
      return [cluster.name, `${plural(cluster.size, "image")}${sure}${wrong}`];
    }
    switch (view.kind) {
      case "like": {
        const [first] = view.rows;
        const name = view.rows.length === 1 && first !== undefined ? shorten(this.host.nameOf(first), 60) : plural(view.rows.length, "image");
        return [`More like ${name}`, `${plural(nShown, "image")}, most similar first, from all clusters`];
      }
      case "wrong":
        return ["Marked wrong", `${plural(nShown, "image")} that you say lie in the wrong cluster`];
      case "moved":
        return ["Moved by you", `${plural(nShown, "image")} now in another cluster than the method put them`];
      case "stacks":
        return ["Stacks of duplicates", `${plural(nShown, "image")}, stack by stack; the proposed best of each comes first. Nothing is ever deleted.`];
      case "stack":
        return ["A stack", `${plural(nShown, "image")} that show the same; the proposed best comes first`];
      case "all":
        return ["All images", plural(nShown, "image")];
      case "cluster":
        return ["No such cluster", "It was merged into another, or emptied."];
    }
  }
}

/** The tree of the clusters in a window: branches that open and close, another number of clusters, and the cut. */

import { Refused, type Tree, makeCut } from "./api";
import { fill, h } from "./dom";
import type { Tiles } from "./tiles";
import { plural } from "./words";

/** What a branch has fallen into at a number of clusters: itself, if it has not. */
export function below(tree: Tree, node: number, nClusters: number): number[] {
  if (node < 2 * tree.n_parts - nClusters) return [node];
  return (tree.nodes[node]?.children ?? []).flatMap((child) => below(tree, child, nClusters));
}

/** The levels to show for a number of clusters: coarser ones first, the number itself last. */
export function levelsFor(tree: Tree, nClusters: number): number[] {
  const coarser = tree.levels.filter((level) => 1.5 * level <= nClusters);
  return [...coarser, ...(nClusters > tree.n_clusters ? [tree.n_clusters] : []), nClusters];
}

export function showTree(tree: Tree, tiles: Tiles): () => void {
  const canvases: { row: number; canvas: HTMLCanvasElement; isDrawn: boolean }[] = [];
  const draw = () => {
    for (const one of canvases) if (!one.isDrawn) one.isDrawn = tiles.draw(one.row, one.canvas);
    tiles.want(canvases.filter((one) => !one.isDrawn).map((one) => one.row));
  };

  const words = (node: number): Node[] => {
    const branch = tree.nodes[node];
    if (!branch) return [];
    const few = branch.pictures.map((row) => {
      const canvas = h("canvas", { class: "cover", "aria-hidden": "true" });
      canvases.push({ row, canvas, isDrawn: false });
      return canvas;
    });
    return [h("span", { class: "few" }, ...few), h("span", { class: "label" }, branch.name), h("span", { class: "size" }, plural(branch.size, "image"))];
  };
  const twig = (node: number, levels: number[], at: number): HTMLElement => {
    let inner = [node];
    let level = at;
    while (inner.length === 1 && level + 1 < levels.length) {
      level += 1;
      inner = below(tree, node, levels[level] as number);
    }
    if (inner.length === 1) return h("li", {}, h("div", { class: "twig" }, ...words(node)));
    const list = h("ul", { class: "twigs" }, ...inner.map((child) => twig(child, levels, level)));
    return h("li", {}, h("details", { open: true }, h("summary", { class: "twig" }, ...words(node)), list));
  };

  const slider = h("input", { type: "range", id: "tree-number", min: 2, max: tree.n_parts, value: tree.n_clusters, "aria-label": "Number of clusters" });
  const said = h("output", { id: "tree-said" });
  const list = h("ul", { class: "twigs" });
  const result = h("p", { class: "result", role: "status" });
  const make = h("button", { type: "button", class: "strong", id: "make-cut" });
  const render = () => {
    const number = slider.valueAsNumber;
    const levels = levelsFor(tree, number);
    canvases.length = 0;
    fill(list, ...below(tree, tree.nodes.length - 1, levels[0] as number).map((node) => twig(node, levels, 0)));
    said.textContent = number === tree.n_clusters ? `${plural(number, "cluster")}, as the run has` : plural(number, "cluster");
    make.textContent = `Make a run with ${plural(number, "cluster")}`;
    make.disabled = number === tree.n_clusters;
    fill(result);
    draw();
  };
  const open = (isOpen: boolean) => () => {
    for (const branch of list.querySelectorAll("details")) branch.open = isOpen;
  };
  slider.addEventListener("input", render);
  make.addEventListener("click", () => void cut(slider.valueAsNumber, make, result));

  const dialog = h(
    "dialog",
    { class: "tree", "aria-labelledby": "tree-title" },
    h("h2", { id: "tree-title" }, "Tree"),
    h("p", { class: "hint" }, "Clusters that are most alike stand together. Fewer clusters are whole ones joined, more are parts of them. Corrections by hand are not in the tree, but a new run takes them over."),
    h("div", { class: "number" }, h("label", {}, "Clusters ", slider), said, h("button", { type: "button", class: "quiet", click: open(true) }, "Open all"), h("button", { type: "button", class: "quiet", click: open(false) }, "Close all")),
    list,
    result,
    h("div", { class: "buttons" }, h("button", { type: "button", click: () => dialog.close() }, "Close"), make),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  render();
  return () => {
    if (dialog.open) draw();
  };
}

async function cut(clusters: number, button: HTMLButtonElement, result: HTMLElement): Promise<void> {
  button.disabled = true;
  fill(result, "Making the run…");
  try {
    const { path, carried } = await makeCut(clusters);
    fill(result, "Written. Open it with", h("code", {}, `selfsort explore ${path}`), carried && h("span", {}, `Corrections ${carried}.`));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    fill(result, error.message);
    button.disabled = false;
  }
}

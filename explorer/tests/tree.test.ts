import { describe, expect, it } from "vitest";
import { below, levelsFor } from "../src/tree";
import type { Tree } from "../src/types";

const leaf = { name: "", size: 1, children: [], pictures: [] };
/** Four parts: 0 and 1 join to 4, 2 and 3 to 5, all to 6. */
const tree: Tree = {
  nodes: [leaf, leaf, leaf, leaf, { ...leaf, children: [0, 1] }, { ...leaf, children: [2, 3] }, { ...leaf, children: [4, 5] }],
  n_parts: 4,
  n_clusters: 3,
  levels: [2],
};

describe("below", () => {
  it("gives the clusters at every number", () => {
    expect([1, 2, 3, 4].map((n) => below(tree, 6, n))).toEqual([[6], [4, 5], [4, 2, 3], [0, 1, 2, 3]]);
  });
  it("gives a branch itself as long as it is whole", () => {
    expect(below(tree, 4, 3)).toEqual([4]);
    expect(below(tree, 5, 3)).toEqual([2, 3]);
  });
});

describe("levelsFor", () => {
  it("ends with the number asked for, and passes the run's own on the way to more", () => {
    expect(levelsFor(tree, 2)).toEqual([2]);
    expect(levelsFor(tree, 3)).toEqual([2, 3]);
    expect(levelsFor(tree, 4)).toEqual([2, 3, 4]);
  });
});

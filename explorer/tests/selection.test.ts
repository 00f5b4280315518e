import { beforeEach, describe, expect, it } from "vitest";
import { Selection } from "../src/selection";

const order = [50, 40, 30, 20, 10];
let changes = 0;
let selection: Selection;
const rows = () => [...selection.rows].sort((a, b) => a - b);

beforeEach(() => {
  changes = 0;
  selection = new Selection(() => (changes += 1));
});

describe("Selection", () => {
  it("takes one and lets go of the others", () => {
    selection.only(order, 1);
    selection.only(order, 3);
    expect(rows()).toEqual([20]);
    expect(changes).toBe(2);
  });
  it("toggles", () => {
    selection.toggle(order, 0);
    selection.toggle(order, 4);
    selection.toggle(order, 0);
    expect(rows()).toEqual([10]);
  });
  it("extends from the last click, both ways and again", () => {
    selection.only(order, 2);
    selection.extend(order, 4);
    expect(rows()).toEqual([10, 20, 30]);
    selection.extend(order, 0);
    expect(rows()).toEqual([30, 40, 50]);
  });
  it("takes all and none", () => {
    selection.all(order);
    expect(rows()).toEqual([10, 20, 30, 40, 50]);
    selection.clear();
    selection.clear();
    expect(rows()).toEqual([]);
    expect(changes).toBe(2);
  });
  it("does not mind a place that is not there", () => {
    selection.toggle(order, 9);
    selection.only([], 0);
    expect(rows()).toEqual([]);
  });
});

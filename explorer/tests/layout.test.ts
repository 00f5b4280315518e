import { describe, expect, it } from "vitest";
import { fitGrid, place, scrollFor, stepTo, tilesBetween, totalHeight } from "../src/layout";

const grid = { columns: 4, width: 90, height: 90, gap: 10 };

describe("fitGrid", () => {
  it("fills the width with tiles of at least the wanted size", () => {
    const found = fitGrid(1000, 92, 1, 8);
    expect(found.columns).toBe(10);
    expect(found.columns * found.width + 9 * found.gap).toBeCloseTo(1000);
    expect(found.width).toBeGreaterThanOrEqual(92);
  });
  it("keeps the shape of the pictures", () => {
    const found = fitGrid(500, 100, 0.5, 0);
    expect(found.height).toBeCloseTo(2 * found.width);
  });
  it("has a column even where there is no room", () => {
    expect(fitGrid(10, 92, 1, 8).columns).toBe(1);
    expect(fitGrid(0, 92, 1, 8).width).toBeGreaterThan(0);
  });
});

describe("which tiles exist", () => {
  it("covers every height that can be seen, in whole lines", () => {
    expect(tilesBetween(grid, 100, 0, 250)).toEqual({ first: 0, end: 12 });
    expect(tilesBetween(grid, 100, 150, 250)).toEqual({ first: 4, end: 12 });
    expect(tilesBetween(grid, 100, 2400, 9999)).toEqual({ first: 96, end: 100 });
    expect(tilesBetween(grid, 0, 0, 500)).toEqual({ first: 0, end: 0 });
    expect(tilesBetween(grid, 100, -500, 100)).toEqual({ first: 0, end: 4 });
  });
  it("is few, however many images there are", () => {
    const { first, end } = tilesBetween(grid, 1_000_000, 12_345_000, 12_346_000);
    expect(end - first).toBeLessThanOrEqual(48);
  });
  it("agrees with where tiles are placed", () => {
    for (let index = 0; index < 100; index += 1) {
      const { top } = place(grid, index);
      const { first, end } = tilesBetween(grid, 100, top, top + 1);
      expect(first <= index && index < end).toBe(true);
    }
    expect(totalHeight(grid, 9)).toBe(290);
    expect(totalHeight(grid, 0)).toBe(0);
  });
});

describe("keys", () => {
  const to = (key: string, from: number) => stepTo(key, from, grid, 10, 250);
  it("goes from tile to tile and stops at the ends", () => {
    expect(to("ArrowRight", 3)).toBe(4);
    expect(to("ArrowRight", 9)).toBe(9);
    expect(to("ArrowLeft", 0)).toBe(0);
    expect(to("ArrowDown", 5)).toBe(9);
    expect(to("ArrowDown", 7)).toBe(7);
    expect(to("ArrowUp", 2)).toBe(2);
    expect(to("ArrowUp", 6)).toBe(2);
    expect(to("PageDown", 1)).toBe(9);
    expect(to("PageUp", 9)).toBe(1);
    expect([to("Home", 5), to("End", 5)]).toEqual([0, 9]);
  });
  it("leaves other keys alone", () => expect(to("a", 5)).toBeNull());
  it("scrolls just far enough", () => {
    expect(scrollFor(grid, 0, 0, 200)).toBeNull();
    expect(scrollFor(grid, 8, 0, 200)).toBe(90);
    expect(scrollFor(grid, 0, 150, 200)).toBe(0);
  });
});

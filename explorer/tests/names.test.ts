import { beforeEach, describe, expect, it, vi } from "vitest";
import { Names, PATIENCE } from "../src/names";

const upTo = (n: number, from = 0): number[] => Array.from({ length: n }, (_, i) => from + i);

/** A server that knows all names. */
function served(): { names: Names; asked: number[][]; arrivals: () => number; fail: () => void } {
  const asked: number[][] = [];
  let arrivals = 0;
  let isGone = false;
  const fetchNames = (rows: readonly number[]): Promise<string[]> => {
    asked.push([...rows]);
    return isGone ? Promise.reject(new Error("gone")) : Promise.resolve(rows.map((row) => `${row}.png`));
  };
  return { names: new Names(fetchNames, () => (arrivals += 1)), asked, arrivals: () => arrivals, fail: () => (isGone = true) };
}

describe("Names", () => {
  beforeEach(() => void vi.useFakeTimers());

  it("are asked for once, many at a time, and told when they come", async () => {
    const { names, asked, arrivals } = served();
    names.want(upTo(300));
    expect(names.of(7)).toBe("image 7");
    expect(asked).toEqual([]);
    await vi.advanceTimersByTimeAsync(PATIENCE);
    expect(asked).toEqual([upTo(200), upTo(100, 200)]);
    expect(arrivals()).toBe(2);
    expect(names.of(7)).toBe("7.png");
    names.want(upTo(300));
    await vi.advanceTimersByTimeAsync(PATIENCE);
    expect(asked.length).toBe(2);
  });

  it("of what was scrolled past are not asked for", async () => {
    const { names, asked } = served();
    names.want(upTo(100));
    names.want(upTo(10, 5000));
    await vi.advanceTimersByTimeAsync(PATIENCE);
    expect(asked).toEqual([upTo(10, 5000)]);
  });

  it("are asked for again when the server is back, and not before somebody wants them", async () => {
    const { names, asked, fail } = served();
    fail();
    names.want([3]);
    await vi.advanceTimersByTimeAsync(10 * PATIENCE);
    expect(asked).toEqual([[3]]);
    expect(names.of(3)).toBe("image 3");
    names.want([3]);
    await vi.advanceTimersByTimeAsync(PATIENCE);
    expect(asked.length).toBe(2);
  });
});

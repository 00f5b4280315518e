import { describe, expect, it } from "vitest";
import type { Sheet } from "../src/api";
import { Tiles } from "../src/tiles";

const SHAPE = { tile_width: 10, tile_height: 20, sheet_columns: 2, sheet_rows: 4 };

/** A server that answers when it is told to. */
class Server {
  asked: number[][] = [];
  private answers: ((sheet: Sheet) => void)[] = [];
  private refusals: ((error: Error) => void)[] = [];
  closed = 0;

  fetch = (rows: readonly number[]): Promise<Sheet> => {
    this.asked.push([...rows]);
    return new Promise((resolve, reject) => {
      this.answers.push(resolve);
      this.refusals.push(reject);
    });
  };

  async answer(missing: number[] = [], side = 100): Promise<void> {
    const bitmap = { width: side, height: side, close: () => (this.closed += 1) } as unknown as ImageBitmap;
    this.answers.shift()?.({ bitmap, missing: new Set(missing) });
    this.refusals.shift();
    await new Promise((resolve) => setTimeout(resolve));
  }

  async refuse(): Promise<void> {
    this.refusals.shift()?.(new Error("gone"));
    this.answers.shift();
    await new Promise((resolve) => setTimeout(resolve));
  }
}

const upTo = (n: number, from = 0): number[] => Array.from({ length: n }, (_, i) => from + i);

describe("Tiles", () => {
  it("asks for many at a time, the most urgent first, and each once", async () => {
    const server = new Server();
    const tiles = new Tiles(SHAPE, server.fetch, () => undefined);
    tiles.want(upTo(20));
    tiles.want(upTo(20));
    expect(server.asked).toEqual([upTo(4), upTo(4, 4), upTo(4, 8)]);
    await server.answer();
    expect(server.asked[3]).toEqual(upTo(4, 12));
    tiles.want(upTo(4));
    expect(server.asked.length).toBe(4);
  });

  it("forgets what was scrolled past", async () => {
    const server = new Server();
    const tiles = new Tiles(SHAPE, server.fetch, () => undefined);
    tiles.want(upTo(100));
    tiles.want(upTo(4, 500));
    await server.answer();
    expect(server.asked.slice(3)).toEqual([upTo(4, 500)]);
    await server.answer();
    expect(server.asked.length).toBe(4);
  });

  it("knows where on the sheet a picture is, and which are missing", async () => {
    const server = new Server();
    let arrivals = 0;
    const tiles = new Tiles(SHAPE, server.fetch, () => (arrivals += 1));
    tiles.want([7, 8, 9]);
    expect(tiles.find(9)).toBeUndefined();
    await server.answer([1]);
    expect(arrivals).toBe(1);
    expect(tiles.find(9)).toMatchObject({ left: 0, top: 20 });
    expect(tiles.find(8)).toBeNull();
  });

  it("drops the oldest sheets when there are too many, and can ask for them again", async () => {
    const server = new Server();
    const tiles = new Tiles(SHAPE, server.fetch, () => undefined);
    for (let i = 0; i < 4; i += 1) {
      tiles.want([i]);
      await server.answer([], 4000);
    }
    expect(server.closed).toBe(2);
    expect(tiles.find(0)).toBeUndefined();
    expect(tiles.find(3)).toBeDefined();
    tiles.want([0]);
    expect(server.asked.at(-1)).toEqual([0]);
  });

  it("stops asking a server that is gone until somebody wants something again", async () => {
    const server = new Server();
    const tiles = new Tiles(SHAPE, server.fetch, () => undefined);
    tiles.want(upTo(4));
    await server.refuse();
    expect(server.asked.length).toBe(1);
    tiles.want(upTo(4));
    expect(server.asked.length).toBe(2);
  });
});

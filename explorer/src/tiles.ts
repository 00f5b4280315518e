/**
 * Small pictures, fetched many at a time on sheets and kept as long as there is room.
 *
 * The gallery says again and again which images it wants, nearest first. Only the latest wish counts: what has been
 * scrolled past is never asked for.
 */

import type { Sheet } from "./api";

interface Spot {
  sheet: ImageBitmap;
  left: number;
  top: number;
}

export interface TileShape {
  tile_width: number;
  tile_height: number;
  sheet_columns: number;
  sheet_rows: number;
}

const MAX_REQUESTS = 3;
const MAX_PIXELS = 40e6;

export class Tiles {
  private readonly spots = new Map<number, Spot | null>();
  private readonly asked = new Set<number>();
  private sheets: { bitmap: ImageBitmap; rows: number[] }[] = [];
  private pixels = 0;
  private wishes: number[] = [];
  private requests = 0;

  constructor(
    private readonly shape: TileShape,
    private readonly fetchSheet: (rows: readonly number[]) => Promise<Sheet>,
    /** Called when pictures have come. */
    private readonly arrived: () => void,
  ) {}

  /** Undefined as long as it is not known; null if there is no picture. */
  find(row: number): Spot | null | undefined {
    return this.spots.get(row);
  }

  draw(row: number, canvas: HTMLCanvasElement): boolean {
    const spot = this.spots.get(row);
    if (!spot) return false;
    const { tile_width: width, tile_height: height } = this.shape;
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    canvas.getContext("2d", { alpha: false })?.drawImage(spot.sheet, spot.left, spot.top, width, height, 0, 0, width, height);
    return true;
  }

  /** Replace what is wished for by these images, the most urgent first. */
  want(rows: readonly number[]): void {
    this.wishes = rows.filter((row) => !this.spots.has(row));
    this.pump();
  }

  private pump(): void {
    while (this.requests < MAX_REQUESTS) {
      const rows = this.wishes.filter((row) => !this.asked.has(row) && !this.spots.has(row)).slice(0, this.shape.sheet_rows);
      if (!rows.length) return;
      void this.load(rows);
    }
  }

  private async load(rows: number[]): Promise<void> {
    this.requests += 1;
    for (const row of rows) this.asked.add(row);
    try {
      const { bitmap, missing } = await this.fetchSheet(rows);
      this.keep(bitmap, rows, missing);
    } catch {
      // The server is gone; whoever asks it for something else will say so. Nothing is wished for until then.
      this.wishes = [];
    } finally {
      this.requests -= 1;
      for (const row of rows) this.asked.delete(row);
    }
    this.arrived();
    this.pump();
  }

  private keep(bitmap: ImageBitmap, rows: number[], missing: Set<number>): void {
    const { tile_width: width, tile_height: height, sheet_columns: columns } = this.shape;
    rows.forEach((row, i) => {
      const spot = { sheet: bitmap, left: (i % columns) * width, top: Math.floor(i / columns) * height };
      this.spots.set(row, missing.has(i) ? null : spot);
    });
    this.sheets.push({ bitmap, rows });
    this.pixels += bitmap.width * bitmap.height;
    while (this.pixels > MAX_PIXELS && this.sheets.length > 1) this.drop();
  }

  private drop(): void {
    const oldest = this.sheets.shift();
    if (!oldest) return;
    this.pixels -= oldest.bitmap.width * oldest.bitmap.height;
    for (const row of oldest.rows) if (this.spots.get(row)?.sheet === oldest.bitmap) this.spots.delete(row);
    oldest.bitmap.close();
  }
}

/**
 * Names of images, fetched for those in view: of a million nobody wants them all.
 *
 * As with pictures, only the latest wish counts. It waits for a moment, so that pictures come first and what is scrolled
 * past is not asked for.
 */

const MAX_AT_ONCE = 200;
export const PATIENCE = 150;

export class Names {
  private readonly known = new Map<number, string>();
  private wishes: number[] = [];
  private isAsking = false;

  constructor(
    private readonly fetchNames: (rows: readonly number[]) => Promise<string[]>,
    /** Called when names have come. */
    private readonly arrived: () => void,
  ) {}

  /** The name of an image, or what stands for it as long as it is not known. */
  of(row: number): string {
    return this.known.get(row) ?? `image ${row}`;
  }

  /** Replace what is wished for by these images, the most urgent first. */
  want(rows: readonly number[]): void {
    this.wishes = rows.filter((row) => !this.known.has(row));
    if (!this.wishes.length || this.isAsking) return;
    this.isAsking = true;
    setTimeout(() => void this.ask(), PATIENCE);
  }

  private async ask(): Promise<void> {
    for (let rows = this.next(); rows.length; rows = this.next()) {
      try {
        const names = await this.fetchNames(rows);
        rows.forEach((row, i) => this.known.set(row, names[i] ?? `image ${row}`));
      } catch {
        // The server is gone; whoever asks it for something else will say so.
        break;
      }
      this.arrived();
    }
    this.isAsking = false;
  }

  private next(): number[] {
    return this.wishes.filter((row) => !this.known.has(row)).slice(0, MAX_AT_ONCE);
  }
}

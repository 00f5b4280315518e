/** Which images are selected: by row, so that they stay selected when their order changes. */

export class Selection {
  readonly rows = new Set<number>();
  /** Where a range begins, as a place in the view. */
  private anchor = 0;

  constructor(private readonly changed: () => void) {}

  only(order: readonly number[], index: number): void {
    this.rows.clear();
    this.add(order, index, index);
    this.anchor = index;
    this.changed();
  }

  toggle(order: readonly number[], index: number): void {
    const row = order[index];
    if (row === undefined) return;
    if (!this.rows.delete(row)) this.rows.add(row);
    this.anchor = index;
    this.changed();
  }

  /** Select everything from where the last click was. */
  extend(order: readonly number[], index: number): void {
    this.rows.clear();
    this.add(order, Math.min(this.anchor, index), Math.max(this.anchor, index));
    this.changed();
  }

  all(order: readonly number[]): void {
    this.add(order, 0, order.length - 1);
    this.changed();
  }

  clear(): void {
    if (!this.rows.size) return;
    this.rows.clear();
    this.changed();
  }

  private add(order: readonly number[], first: number, last: number): void {
    for (const row of order.slice(Math.max(0, first), last + 1)) this.rows.add(row);
  }
}

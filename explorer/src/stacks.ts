/** Stacks of duplicates: pictures of which a person would keep one. */

import type { PictureStack } from "./api";

export interface InStack {
  /** Number of the stack. */
  id: number;
  size: number;
  isBest: boolean;
  /** What makes it a duplicate of the best one. */
  kind: string;
}

export class Stacks {
  private readonly places = new Map<number, InStack>();

  constructor(private readonly stacks: readonly PictureStack[]) {
    stacks.forEach(({ rows, kinds }, id) => {
      rows.forEach((row, i) => this.places.set(row, { id, size: rows.length, isBest: i === 0, kind: kinds[i - 1] ?? "" }));
    });
  }

  get count(): number {
    return this.stacks.length;
  }

  of(row: number): InStack | undefined {
    return this.places.get(row);
  }

  rows(id: number): readonly number[] {
    return this.stacks[id]?.rows ?? [];
  }

  /** What a screen reader and the window of one image say. */
  words(row: number): string {
    const place = this.of(row);
    if (!place) return "";
    return place.isBest ? `proposed best of a stack of ${place.size}` : `${place.kind}, in a stack of ${place.size}`;
  }
}

/** What stands on the picture: among stacks what it is there, elsewhere how many there are besides. */
export function badge(place: InStack, isAmongStacks: boolean): string {
  if (isAmongStacks) return place.isBest ? "★ best" : place.kind;
  return `${place.isBest ? "★ " : ""}+${place.size - 1}`;
}

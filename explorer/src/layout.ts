/** The arithmetic of a grid of which only the visible part exists. */

export interface Grid {
  columns: number;
  width: number;
  height: number;
  gap: number;
}

export interface Range {
  first: number;
  /** One past the last. */
  end: number;
}

/** Fill the width with tiles of about the wanted size; `aspect` is width over height. */
export function fitGrid(available: number, wanted: number, aspect: number, gap: number): Grid {
  const columns = Math.max(1, Math.floor((available + gap) / (wanted + gap)));
  const width = Math.max(1, (available - gap * (columns - 1)) / columns);
  return { columns, width, height: width / aspect, gap };
}

export function totalHeight(grid: Grid, count: number): number {
  const lines = Math.ceil(count / grid.columns);
  return lines ? lines * (grid.height + grid.gap) - grid.gap : 0;
}

export function place(grid: Grid, index: number): { left: number; top: number } {
  const line = Math.floor(index / grid.columns);
  return { left: (index % grid.columns) * (grid.width + grid.gap), top: line * (grid.height + grid.gap) };
}

/** The tiles between two heights, whole lines of them. */
export function tilesBetween(grid: Grid, count: number, top: number, bottom: number): Range {
  const step = grid.height + grid.gap;
  const first = Math.max(0, Math.floor(top / step)) * grid.columns;
  const end = Math.max(0, Math.ceil(bottom / step)) * grid.columns;
  return { first: Math.min(first, count), end: Math.min(end, count) };
}

/** Where a key leads from a tile; null if the key is not for moving. */
export function stepTo(key: string, from: number, grid: Grid, count: number, page: number): number | null {
  const jump = grid.columns * Math.max(1, Math.floor(page / (grid.height + grid.gap)));
  const moves: Record<string, number> = {
    ArrowLeft: from - 1,
    ArrowRight: from + 1,
    ArrowUp: from - grid.columns < 0 ? from : from - grid.columns,
    ArrowDown: from + grid.columns >= count ? from : from + grid.columns,
    PageUp: from - jump,
    PageDown: from + jump,
    Home: 0,
    End: count - 1,
  };
  const to = moves[key];
  return to === undefined ? null : Math.max(0, Math.min(count - 1, to));
}

/** How far to scroll so that a tile is seen whole; null if it is. */
export function scrollFor(grid: Grid, index: number, scrollTop: number, viewHeight: number): number | null {
  const { top } = place(grid, index);
  if (top < scrollTop) return top;
  const bottom = top + grid.height;
  return bottom > scrollTop + viewHeight ? bottom - viewHeight : null;
}

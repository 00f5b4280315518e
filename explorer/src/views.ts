/** What the gallery shows, and how the address of the page says it. */

export type View =
  | { kind: "cluster"; id: number }
  | { kind: "stack"; id: number }
  | { kind: "all" | "wrong" | "moved" | "stacks" }
  | { kind: "like"; rows: number[] };

export function toHash(view: View): string {
  if (view.kind === "cluster") return `#cluster/${view.id}`;
  if (view.kind === "stack") return `#stack/${view.id}`;
  if (view.kind === "like") return `#like/${view.rows.join(",")}`;
  return `#${view.kind}`;
}

export function fromHash(hash: string, nImages: number): View | null {
  const [kind, rest] = hash.replace(/^#/, "").split("/", 2);
  if (kind === "all" || kind === "wrong" || kind === "moved" || kind === "stacks") return { kind };
  const numbers = /^[0-9]{1,12}(,[0-9]{1,12})*$/.test(rest ?? "") ? (rest ?? "").split(",").map(Number) : [];
  if ((kind === "cluster" || kind === "stack") && numbers.length === 1) return { kind, id: numbers[0] as number };
  if (kind === "like" && numbers.length && numbers.every((row) => row < nImages)) return { kind, rows: numbers };
  return null;
}

export const same = (a: View, b: View): boolean => toHash(a) === toHash(b);

import { expect, test } from "vitest";
import { Stacks, badge } from "../src/stacks";
import { fromHash, toHash } from "../src/views";

const stacks = new Stacks([
  { rows: [7, 2, 9], kinds: ["copy", "burst"] },
  { rows: [4, 5], kinds: ["resized"] },
]);

test("an image knows its stack and what it is there", () => {
  expect(stacks.count).toBe(2);
  expect(stacks.of(9)).toEqual({ id: 0, size: 3, isBest: false, kind: "burst" });
  expect(stacks.of(1)).toBeUndefined();
  expect(stacks.rows(1)).toEqual([4, 5]);
  expect(stacks.words(7)).toBe("proposed best of a stack of 3");
  expect(stacks.words(9)).toBe("burst, in a stack of 3");
  expect(stacks.words(1)).toBe("");
});

test("the badge counts the others, and among stacks says what it is", () => {
  const [best, other] = [stacks.of(7)!, stacks.of(2)!];
  expect([badge(best, false), badge(other, false), badge(best, true), badge(other, true)]).toEqual(["★ +2", "+2", "★ best", "copy"]);
});

test("stacks have addresses", () => {
  for (const view of [{ kind: "stacks" } as const, { kind: "stack", id: 3 } as const]) expect(fromHash(toHash(view), 10)).toEqual(view);
});

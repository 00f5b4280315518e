import { describe, expect, it } from "vitest";
import { nameOfKey } from "../src/keys";
import { fromHash, same, toHash } from "../src/views";
import { percent, plural, shorten } from "../src/words";

describe("words", () => {
  it("counts", () => expect([plural(1, "image"), plural(1200, "image")]).toEqual(["1 image", "1,200 images"]));
  it("shares", () => expect(percent(0.1234)).toBe("12.3 %"));
  it("cuts in the middle", () => expect(shorten("holiday/2019/very/long/name.png", 15)).toBe("holiday…ame.png"));
});

describe("the address of the page", () => {
  it("says what is shown", () => {
    for (const hash of ["#all", "#wrong", "#moved", "#cluster/3", "#like/1,22"]) {
      const view = fromHash(hash, 100);
      expect(view && toHash(view)).toBe(hash);
      expect(view && same(view, { ...view })).toBe(true);
    }
  });
  it("may be anything", () => {
    for (const hash of ["", "#", "#x", "#cluster", "#cluster/-1", "#cluster/1,2", "#cluster/1e3", "#like/100", "#like/<img>", "#like/"]) {
      expect(fromHash(hash, 100)).toBeNull();
    }
  });
});

describe("keys", () => {
  const key = (name: string, held: Partial<Parameters<typeof nameOfKey>[0]> = {}) =>
    nameOfKey({ key: name, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, ...held });
  it("has one name for each", () => {
    expect(key("z", { ctrlKey: true })).toBe("Ctrl z");
    expect(key("z", { metaKey: true })).toBe("Ctrl z");
    expect(key("Z", { ctrlKey: true, shiftKey: true })).toBe("Ctrl Shift z");
    expect(key("?", { shiftKey: true })).toBe("?");
    expect(key("Escape")).toBe("Escape");
  });
});

import { describe, expect, it } from "vitest";
import { address } from "../src/api";

describe("address", () => {
  it("puts a parameter where the address names it", () => {
    expect(address("api/images/{row}", { row: 7 })).toBe("api/images/7");
    expect(address("api/exports/{name}", { name: "a/b?c" })).toBe("api/exports/a%2Fb%3Fc");
  });

  it("puts the others behind it, lists one by one", () => {
    expect(address("api/rows", { cluster: 3, order: "name" })).toBe("api/rows?cluster=3&order=name");
    expect(address("api/sheet", { row: [4, 2] })).toBe("api/sheet?row=4&row=2");
  });

  it("leaves out what is not said", () => {
    expect(address("api/rows", { cluster: null, view: "all" })).toBe("api/rows?view=all");
    expect(address("api/run", {})).toBe("api/run");
  });
});

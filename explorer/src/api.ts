/** What the server is asked and what it answers; the forms are in types.ts, which is written from its own description. */

import type { CutMade, Edited, Exported, ExportRequest, Get, HistoryEntry, ImageFacts, Lesson, Listing, Overview, PictureStack, Post, Run, Tree } from "./types";

export type { Cluster, HistoryEntry, ImageFacts, Listing, Overview, PictureStack, Run, Tree } from "./types";

export type ExportKind = ExportRequest["kind"];
export type EditRequest = Post["api/edits"]["body"];
export type Rows = Get["api/rows"]["parameters"];
export type Order = NonNullable<Rows["order"]>;

/** The server has said no, in words for the user. */
export class Refused extends Error {}

async function request(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Refused("The server does not answer. Start selfsort explore again; confirmed edits are kept.");
  }
  if (response.ok) return response;
  const text = await response.text().catch(() => "");
  // The guard before the application answers in plain words, everything behind it in the form of a problem.
  throw new Refused((response.status === 403 ? text : detailOf(text)) || `The server refused (${response.status}).`);
}

function detailOf(text: string): string | null {
  try {
    const problem: unknown = JSON.parse(text);
    const detail = problem && typeof problem === "object" && "detail" in problem ? problem.detail : null;
    return typeof detail === "string" ? detail : null;
  } catch {
    return null;
  }
}

/** Put parameters where the address names them, and behind it those that it does not name. */
export function address<P extends keyof Get>(path: P, parameters: Get[P]["parameters"]): string {
  const query: string[] = [];
  let filled: string = path;
  for (const [name, value] of Object.entries<unknown>(parameters)) {
    const texts = [value ?? []].flat().map((one) => encodeURIComponent(String(one)));
    if (filled.includes(`{${name}}`)) filled = filled.replace(`{${name}}`, texts.join());
    else query.push(...texts.map((text) => `${name}=${text}`));
  }
  return query.length ? `${filled}?${query.join("&")}` : filled;
}

async function get<P extends keyof Get>(path: P, parameters: Get[P]["parameters"]): Promise<Get[P]["answer"]> {
  return (await (await request(address(path, parameters))).json()) as Get[P]["answer"];
}

async function post<P extends keyof Post>(path: P, body: Post[P]["body"]): Promise<Post[P]["answer"]> {
  const init: RequestInit = { method: "POST" };
  if (body !== undefined) Object.assign(init, { headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  return (await (await request(path, init)).json()) as Post[P]["answer"];
}

export const getRun = (): Promise<Run> => get("api/run", {});
export const getNames = (rows: readonly number[]): Promise<string[]> => get("api/names", { row: [...rows] });
export const getOverview = (): Promise<Overview> => get("api/clusters", {});
export const getRows = (which: Rows): Promise<Listing> => get("api/rows", which);
export const getSimilar = (rows: readonly number[]): Promise<Listing> => get("api/similar", { row: [...rows] });
export const getImage = (row: number): Promise<ImageFacts> => get("api/images/{row}", { row });
export const getHistory = (): Promise<HistoryEntry[]> => get("api/history", {});
export const makeEdit = (edit: EditRequest): Promise<Edited> => post("api/edits", edit);
export const undo = (): Promise<Overview> => post("api/undo", undefined);
export const redo = (): Promise<Overview> => post("api/redo", undefined);
export const writeExport = (kind: ExportKind): Promise<Exported> => post("api/exports", { kind });

export const getStacks = (): Promise<PictureStack[]> => get("api/stacks", {});
export const getLesson = (): Promise<Lesson> => get("api/lessons", {});
export const beginLesson = (): Promise<Lesson> => post("api/lessons", undefined);

export const getTree = (): Promise<Tree> => get("api/tree", {});
export const makeCut = (clusters: number): Promise<CutMade> => post("api/cuts", { clusters });

export interface Sheet {
  bitmap: ImageBitmap;
  missing: Set<number>;
}

export async function getSheet(rows: readonly number[]): Promise<Sheet> {
  const response = await request(address("api/sheet", { row: [...rows] }));
  const missing = (response.headers.get("x-missing") ?? "").split(",").filter(Boolean).map(Number);
  return { bitmap: await createImageBitmap(await response.blob()), missing: new Set(missing) };
}

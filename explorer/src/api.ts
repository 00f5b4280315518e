/** What the server is asked and what it answers; the forms are those of app.py. */

export interface Run {
  name: string;
  method: string;
  n_images: number;
  pictures: "source" | "thumbnails" | "none";
  note: string | null;
  tile_width: number;
  tile_height: number;
  sheet_columns: number;
  sheet_rows: number;
}

export interface Cluster {
  id: number;
  name: string;
  size: number;
  n_wrong: number;
  confidence: number;
  cover: number;
}

export interface Overview {
  clusters: Cluster[];
  n_wrong: number;
  n_moved: number;
  n_edits: number;
  undo: string | null;
  redo: string | null;
}

export interface Listing {
  rows: number[];
  wrong: number[];
  moved: number[];
  /** Where each image is, if the view shows images of several clusters. */
  clusters: number[] | null;
  scores: number[] | null;
}

export interface ImageFacts {
  row: number;
  name: string;
  cluster: number;
  original_cluster: number;
  confidence: number;
  is_wrong: boolean;
}

export interface HistoryEntry {
  number: number;
  made_at: string;
  text: string;
}

export type ExportKind = "labels" | "folders" | "model-input";
export type Order = "typical" | "borderline" | "unsure" | "name";

export type Edit =
  | { kind: "rename"; cluster: number; name: string }
  | { kind: "merge"; clusters: number[]; into: number }
  | { kind: "split"; cluster: number; parts: number }
  | { kind: "move"; rows: number[]; to: number | null }
  | { kind: "mark"; rows: number[]; is_wrong: boolean };

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

async function get<T>(path: string): Promise<T> {
  return (await (await request(path)).json()) as T;
}

async function post<T>(path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method: "POST" };
  if (body !== undefined) Object.assign(init, { headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  return (await (await request(path, init)).json()) as T;
}

const listed = (rows: readonly number[]): string => rows.map((row) => `row=${row}`).join("&");

export const getRun = (): Promise<Run> => get("api/run");
export const getNames = (): Promise<string[]> => get("api/names");
export const getOverview = (): Promise<Overview> => get("api/clusters");
export const getRows = (query: string, order: Order): Promise<Listing> => get(`api/rows?${query}&order=${order}`);
export const getSimilar = (rows: readonly number[]): Promise<Listing> => get(`api/similar?${listed(rows)}`);
export const getImage = (row: number): Promise<ImageFacts> => get(`api/images/${row}`);
export const getHistory = (): Promise<HistoryEntry[]> => get("api/history");
export const makeEdit = (edit: Edit): Promise<{ overview: Overview; clusters: number[] }> => post("api/edits", edit);
export const undo = (): Promise<Overview> => post("api/undo");
export const redo = (): Promise<Overview> => post("api/redo");
export const writeExport = (kind: ExportKind): Promise<{ path: string; file: string | null }> => post("api/exports", { kind });

export interface Sheet {
  bitmap: ImageBitmap;
  missing: Set<number>;
}

export async function getSheet(rows: readonly number[]): Promise<Sheet> {
  const response = await request(`api/sheet?${listed(rows)}`);
  const missing = (response.headers.get("x-missing") ?? "").split(",").filter(Boolean).map(Number);
  return { bitmap: await createImageBitmap(await response.blob()), missing: new Set(missing) };
}

// Written by explorer/typescript.py from the description of the server: change app.py or editor.py instead.

/** One line of the list of clusters. */
export interface Cluster {
  id: number;
  name: string;
  size: number;
  n_wrong: number;
  confidence: number;
  cover: number;
}

/** Where the run with another number of clusters is. */
export interface CutMade {
  path: string;
  carried: string;
}

/** Make a run with another number of clusters. */
export interface CutRequest {
  clusters: number;
}

/** What an edit has led to. */
export interface Edited {
  overview: Overview;
  clusters: number[];
}

/** What to write. */
export interface ExportRequest {
  kind: "labels" | "folders" | "model-input";
}

/** Where an export is. */
export interface Exported {
  path: string;
  file: string | null;
}

/** One edit in force. */
export interface HistoryEntry {
  number: number;
  made_at: string;
  text: string;
}

/** What is known of one image. */
export interface ImageFacts {
  row: number;
  name: string;
  cluster: number;
  original_cluster: number;
  confidence: number;
  is_wrong: boolean;
}

/** How far the learning is. */
export interface Lesson {
  state: "none" | "running" | "failed" | "done";
  line: string;
}

/** The images of a view, in the order asked for; those with a mark are listed again. */
export interface Listing {
  rows: number[];
  wrong: number[];
  moved: number[];
  clusters: number[] | null;
  scores: number[] | null;
}

/** Mark images wrong, or take the mark away. */
export interface MarkRequest {
  kind: "mark";
  rows: number[];
  is_wrong: boolean;
}

/** Put clusters together. */
export interface MergeRequest {
  kind: "merge";
  clusters: number[];
  into?: number | null;
}

/** Put images into a cluster; without one, into a new one. */
export interface MoveRequest {
  kind: "move";
  rows: number[];
  to?: number | null;
  name?: string;
}

/** What the page shows beside the images. */
export interface Overview {
  clusters: Cluster[];
  n_wrong: number;
  n_moved: number;
  n_edits: number;
  undo: string | null;
  redo: string | null;
}

/** Pictures that a person would keep one of. */
export interface PictureStack {
  rows: number[];
  kinds: string[];
}

/** What was wrong, what was expected, what to do. */
export interface Problem {
  detail: string;
}

/** Call a cluster something. */
export interface RenameRequest {
  kind: "rename";
  cluster: number;
  name: string;
}

/** What the page has to know about the run. */
export interface Run {
  name: string;
  method: string;
  state: "starting" | "running" | "stopped" | "finished";
  version: number;
  progress: string;
  n_images: number;
  pictures: "source" | "thumbnails" | "none";
  note: string | null;
  tile_width: number;
  tile_height: number;
  sheet_columns: number;
  sheet_rows: number;
}

/** Cluster the images of one cluster again. */
export interface SplitRequest {
  kind: "split";
  cluster: number;
  parts: number;
}

/** The tree of the clusters from `n_parts` parts on: the parts, then what each merge makes, in order. */
export interface Tree {
  nodes: TreeNode[];
  n_parts: number;
  n_clusters: number;
  levels: number[];
}

/** Some images that are one cluster at some number of clusters. */
export interface TreeNode {
  name: string;
  size: number;
  children: number[];
  pictures: number[];
}

/** What can be asked by GET, by address. */
export interface Get {
  "api/clusters": { parameters: {}; body: undefined; answer: Overview };
  "api/rows": { parameters: { cluster?: number | null; view?: "all" | "wrong" | "moved" | "stacks"; order?: "typical" | "borderline" | "unsure" | "name" }; body: undefined; answer: Listing };
  "api/similar": { parameters: { row: number[]; count?: number }; body: undefined; answer: Listing };
  "api/stacks": { parameters: {}; body: undefined; answer: PictureStack[] };
  "api/images/{row}": { parameters: { row: number }; body: undefined; answer: ImageFacts };
  "api/names": { parameters: { row: number[] }; body: undefined; answer: string[] };
  "api/history": { parameters: {}; body: undefined; answer: HistoryEntry[] };
  "api/run": { parameters: {}; body: undefined; answer: Run };
  "api/sheet": { parameters: { row: number[] }; body: undefined; answer: Blob };
  "api/pictures/{row}": { parameters: { row: number; full?: boolean }; body: undefined; answer: Blob };
  "api/exports/{name}": { parameters: { name: string }; body: undefined; answer: Blob };
  "api/tree": { parameters: {}; body: undefined; answer: Tree };
  "api/lessons": { parameters: {}; body: undefined; answer: Lesson };
}

/** What can be asked by POST, by address. */
export interface Post {
  "api/edits": { parameters: {}; body: RenameRequest | MergeRequest | SplitRequest | MoveRequest | MarkRequest; answer: Edited };
  "api/undo": { parameters: {}; body: undefined; answer: Overview };
  "api/redo": { parameters: {}; body: undefined; answer: Overview };
  "api/exports": { parameters: {}; body: ExportRequest; answer: Exported };
  "api/cuts": { parameters: {}; body: CutRequest; answer: CutMade };
  "api/lessons": { parameters: {}; body: undefined; answer: Lesson };
}

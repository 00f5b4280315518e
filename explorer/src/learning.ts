/** Learn from corrections: start it, say how far it is, and show the run that it has made. */

import * as api from "./api";
import { byId } from "./dom";
import { toast } from "./toast";

const TOLD = "selfsort-learned";

/** Say what the last lesson has led to, and go on with one that was under way when the page was left. */
export async function resumeLearning(): Promise<void> {
  const told = sessionStorage.getItem(TOLD);
  sessionStorage.removeItem(TOLD);
  if (told) toast(told);
  if ((await api.getLesson()).state === "running") await follow();
}

export async function learn(): Promise<void> {
  await api.beginLesson();
  await follow();
}

async function follow(): Promise<void> {
  const button = byId<HTMLButtonElement>("learn");
  const note = byId("note");
  const words = button.textContent;
  button.disabled = true;
  button.textContent = "Learning…";
  try {
    for (;;) {
      const { state, line } = await api.getLesson();
      if (state === "done") {
        sessionStorage.setItem(TOLD, line);
        history.replaceState(null, "", location.pathname);
        location.reload();
        return;
      }
      if (state !== "running") {
        if (line) toast(line, { isProblem: true });
        return;
      }
      note.hidden = false;
      note.textContent = `Learning from your corrections${line ? `: ${line}` : "…"}`;
      await new Promise((resolve) => setTimeout(resolve, 700));
    }
  } finally {
    button.disabled = false;
    button.textContent = words;
    note.hidden = true;
  }
}

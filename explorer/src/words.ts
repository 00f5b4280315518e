/** Numbers and names as people read them. */

const plain = new Intl.NumberFormat("en");

export const count = (value: number): string => plain.format(value);

export const plural = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** Cut a long name in its middle: the folder and the end both stay recognisable. */
export function shorten(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const half = Math.floor((limit - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}

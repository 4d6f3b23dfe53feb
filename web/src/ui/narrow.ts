// Whether the page is as narrow as a phone, now.
import { signal } from "@preact/signals";

const query = matchMedia("(max-width: 720px)");
const narrow = signal(query.matches);
query.addEventListener("change", () => (narrow.value = query.matches));

export function isNarrow(): boolean {
  return narrow.value;
}

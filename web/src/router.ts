// The address of the page, as signals: every view's state that is worth a link lives in it.
import { computed, signal } from "@preact/signals";

const here = signal(new URL(location.href));

/** The path's words: ["jobs", "12"]. */
export const words = computed(() => here.value.pathname.split("/").filter(Boolean));
export const query = computed(() => here.value.searchParams);

/** Go to another view, as a link does. */
export function go(href: string): void {
  history.pushState(null, "", href);
  here.value = new URL(location.href);
  scrollTo(0, 0);
}

/** Change the query of this view; null or nothing removes a name. Typing replaces the last entry. */
export function setQuery(changes: Record<string, string | string[] | null>): void {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    url.searchParams.delete(name);
    for (const each of [value ?? []].flat()) if (each) url.searchParams.append(name, each);
  }
  history.replaceState(null, "", url);
  here.value = url;
}

addEventListener("popstate", () => (here.value = new URL(location.href)));
addEventListener("click", (event) => {
  const link = (event.target as Element).closest?.("a");
  const plain = !event.defaultPrevented && event.button === 0 && !event.metaKey && !event.ctrlKey;
  if (!link || !plain || link.origin !== location.origin || link.hasAttribute("download")) return;
  if (link.target || link.hasAttribute("data-plain")) return;
  event.preventDefault();
  go(link.href);
});

// The search box: words of a name, and user:, pool:, label: before others.
import type { Filter } from "./list";

/** `res user:ada label:team=vision` as a filter. */
export function filterOf(query: URLSearchParams): Filter {
  const filter: Filter = { status: query.getAll("status"), label: [] };
  const parts: string[] = [];
  for (const word of (query.get("q") ?? "").split(/\s+/).filter(Boolean)) {
    const [, key, value] = /^(user|pool|label):(.+)$/.exec(word) ?? [];
    if (key === "label") filter.label.push(value!);
    else if (key === "user" || key === "pool") filter[key] = value;
    else parts.push(word);
  }
  const name = parts.join("*");
  if (name) filter.name = /[*?]/.test(name) && parts.length === 1 ? name : `*${name}*`;
  return filter;
}

// What a view has loaded, kept current.
import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { useLive } from "../live";

/** Load something again and again; null until it was there once. */
export function useLoaded<T>(load: () => Promise<T>, inputs: unknown[], every?: number): T | null {
  const found = useMemo(() => signal<T | null>(null), inputs);
  useLive(
    async () => {
      found.value = await load();
    },
    inputs,
    every,
  );
  return found.value;
}

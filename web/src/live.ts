// What keeps views current: one stream of events for the whole page, told on at most a few times a second.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { me } from "./api/client";
import { follow } from "./api/stream";

const SOON = 30; // ms in which the events of one act come
const TOGETHER = 250; // ms between two times that views are told
const PROGRESS = 2000; // ms between two looks at what has no events: steps, losses, rates

export type Live = "live" | "connecting" | "lost";
export const live = signal<Live>("connecting");

type Listener = () => void;
const listeners = new Set<Listener>();

function tellAll(): void {
  for (const each of listeners) each();
}

/** Follow all events while somebody is logged in. */
export function useEvents(): void {
  const user = me.value?.user;
  useEffect(() => {
    if (user === undefined) return;
    const stop = new AbortController();
    let due: ReturnType<typeof setTimeout> | undefined;
    let told = 0;
    const soon = () => {
      const wait = Math.max(SOON, told + TOGETHER - performance.now());
      due ??= setTimeout(() => {
        due = undefined;
        told = performance.now();
        tellAll();
      }, wait);
    };
    const connected = (now: boolean) => {
      if (now) soon(); // what happened meanwhile
      live.value = now ? "live" : "lost";
    };
    void follow("/v1/events?follow=true", soon, stop.signal, { connected });
    return () => {
      stop.abort();
      clearTimeout(due);
    };
  }, [user]);
}

/** Load now, after every change, and every so often; never twice at once, nor while nobody looks. */
export function useLive(load: () => Promise<void>, inputs: unknown[], every: number = PROGRESS): void {
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    let busy = false;
    let again = false;
    let ended = false;
    const run = async () => {
      if (ended || document.hidden) return;
      if (busy) {
        again = true;
        return;
      }
      busy = true;
      try {
        await latest.current();
      } catch {
        // The daemon is away or refuses: the header says so, and the next look tries again.
      } finally {
        busy = false;
        if (again) {
          again = false;
          void run();
        }
      }
    };
    void run();
    listeners.add(run);
    document.addEventListener("visibilitychange", run);
    const beat = setInterval(run, every);
    return () => {
      ended = true;
      listeners.delete(run);
      document.removeEventListener("visibilitychange", run);
      clearInterval(beat);
    };
  }, inputs);
}

/** Load now, whatever has happened: after an action of the user's own. */
export function refresh(): void {
  tellAll();
}

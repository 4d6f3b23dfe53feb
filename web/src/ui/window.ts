// Which rows of a long list are in view, so that only these are drawn.
import { useEffect, useState } from "preact/hooks";
import type { RefObject } from "preact";

const SPARE = 12; // rows above and below, for quick scrolling

/** Rows from `first` to before `last`; always as many, so that what draws them can be used again. */
export interface Shown {
  first: number;
  last: number;
}

/** The rows of a list in view: `height` px each, below the top of `box`. */
export function useShownRows(box: RefObject<HTMLElement | null>, many: number, height: number): Shown {
  const [shown, setShown] = useState<Shown>({ first: 0, last: Math.ceil(innerHeight / height) + 2 * SPARE });
  useEffect(() => {
    const look = () => {
      const top = box.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / height) - SPARE);
      const last = first + Math.ceil(innerHeight / height) + 2 * SPARE;
      setShown((before) => (before.first === first && before.last === last ? before : { first, last }));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [many, height]);
  return shown;
}

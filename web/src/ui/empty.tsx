// What a view says that has nothing to show: why, and what to do first.
import type { ComponentChildren } from "preact";

import { Command } from "./command";

export function Empty({ title, children, commands = [] }: { title: string; children?: ComponentChildren; commands?: string[] }) {
  return (
    <section class="empty">
      <h2>{title}</h2>
      {children}
      {commands.map((text) => (
        <Command key={text} text={text} />
      ))}
    </section>
  );
}

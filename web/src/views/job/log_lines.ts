// Lines of a job's logs as they arrive, the last ones of all ranks.
const KEPT = 5000;

export interface Line {
  id: number;
  task: string;
  text: string;
}

interface Piece {
  log: string;
  text: string;
}

// Colours and cursor moves that programs print for terminals.
const ESCAPES = /\x1b\[[0-9;?]*[A-Za-z]/g;

export class LogLines {
  lines: Line[] = [];
  private open = new Map<string, string>();
  private next = 0;

  /** Take in a piece of one log: whole lines are shown, the rest waits for its end. */
  take({ log, text }: Piece): void {
    const parts = ((this.open.get(log) ?? "") + text).split("\n");
    this.open.set(log, parts.pop() ?? "");
    const task = log.slice(log.indexOf("/") + 1);
    for (const each of parts) this.lines.push({ id: this.next++, task, text: shown(each) });
    if (this.lines.length > KEPT) this.lines = this.lines.slice(-KEPT);
  }

  /** The lines of a task, or of all, that have a text in them. */
  matching(task: string, text: string): Line[] {
    const wanted = text.toLowerCase();
    return this.lines.filter(
      (line) => (!task || line.task === task) && (!wanted || line.text.toLowerCase().includes(wanted)),
    );
  }
}

/** What a terminal would show of a line: after the last carriage return, without escapes. */
function shown(line: string): string {
  const plain = line.replace(ESCAPES, "").replace(/\r+$/, "");
  return plain.slice(plain.lastIndexOf("\r") + 1);
}

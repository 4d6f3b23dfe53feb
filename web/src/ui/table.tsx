// A table of records; on a phone, each record is a card with the names of its columns.
import type { ComponentChildren } from "preact";

export interface Column<T> {
  name: string;
  /** What the name means, where a word is not enough. */
  title?: string;
  number?: boolean;
  of: (record: T) => ComponentChildren;
}

interface Props<T> {
  label: string;
  /** Shown above it. */
  heading?: ComponentChildren;
  columns: (Column<T> | false)[];
  records: readonly T[];
  keyOf: (record: T) => string | number;
  children?: ComponentChildren;
}

export function Table<T>({ label, heading, children, ...rows }: Props<T>) {
  return (
    <section class="card scroll" aria-label={label} tabIndex={0}>
      {heading && <h2>{heading}</h2>}
      <Rows {...rows} />
      {children}
    </section>
  );
}

/** The table alone, for a card that holds more. Roles are told: a browser forgets those of a table that is laid out anew. */
export function Rows<T>({ columns, records, keyOf }: Pick<Props<T>, "columns" | "records" | "keyOf">) {
  const shown = columns.filter((column) => column !== false);
  return (
    <table role="table">
      <thead role="rowgroup">
        <tr role="row">
          {shown.map((column) => (
            <th key={column.name} role="columnheader" title={column.title} class={column.number ? "number" : ""}>
              {column.name || <span class="hidden">Actions</span>}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {records.map((record) => (
          <tr key={keyOf(record)} role="row">
            {shown.map((column) => (
              <td key={column.name} role="cell" data-name={column.name} class={column.number ? "number" : column.name ? "" : "acts"}>
                {column.of(record)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

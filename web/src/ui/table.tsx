// A table of records.
import type { ComponentChildren } from "preact";

export interface Column<T> {
  name: string;
  number?: boolean;
  of: (record: T) => ComponentChildren;
}

interface Props<T> {
  label: string;
  columns: Column<T>[];
  records: readonly T[];
  keyOf: (record: T) => string | number;
}

export function Table<T>({ label, columns, records, keyOf }: Props<T>) {
  return (
    <section class="card scroll" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} class={column.number ? "number" : ""}>
                {column.name || <span class="hidden">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {records.map((record) => (
            <tr key={keyOf(record)}>
              {columns.map((column) => (
                <td key={column.name} class={column.number ? "number" : ""}>
                  {column.of(record)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

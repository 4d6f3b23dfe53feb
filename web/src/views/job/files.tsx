import { useState } from "preact/hooks";

import { api, got, type Job, type Schemas } from "../../api/client";
import { bytes, clock, moment } from "../../format";
import { Rows } from "../../ui/table";
import { attempt } from "../../ui/toast";

type Folder = Schemas["FolderRecord"];

/** The job's folder, looked into when asked: each look is a visit to its node, and in the audit log. */
export function Files({ job }: { job: Job }) {
  const [path, setPath] = useState("");
  const [folder, setFolder] = useState<Folder | null>(null);
  const which = String(job.number);
  const open = (into: string) =>
    attempt(async () => {
      setFolder(await got(api.GET("/v1/jobs/{which}/files", { params: { path: { which }, query: { path: into } } })));
      setPath(into);
    }, "");
  if (!job.started) return null;
  return (
    <section class="card scroll" aria-label="Files">
      <div class="card-head">
        <h2>Files</h2>
        {folder && path && <code>{path}</code>}
        <button type="button" class="quiet" onClick={() => void open(path)}>
          {folder ? "Look again" : "Show files"}
        </button>
      </div>
      {!folder && <p class="note">What the job has written, on its node. Each look is in the audit log.</p>}
      {folder && path && (
        <button type="button" class="link" onClick={() => void open(path.split("/").slice(0, -1).join("/"))}>
          .. (up)
        </button>
      )}
      {folder && folder.entries.length > 0 && (
        <Rows
          records={folder.entries}
          keyOf={(each) => each.name}
          columns={[
            { name: "Name", of: (each) => <Entry entry={each} path={path ? `${path}/${each.name}` : each.name} which={which} onOpen={open} /> },
            { name: "Size", number: true, of: (each) => (each.kind === "file" ? bytes(each.size) : "") },
            { name: "Changed", of: (each) => <time title={moment(each.modified)}>{clock(each.modified)}</time> },
          ]}
        />
      )}
      {folder && !folder.entries.length && <p>Nothing is in it.</p>}
      {folder && (folder.left_out ?? 0) > 0 && <p>And {folder.left_out} more: muster cp copies them all.</p>}
    </section>
  );
}

interface Props {
  entry: Schemas["FileRecord"];
  path: string;
  which: string;
  onOpen: (path: string) => void;
}

function Entry({ entry, path, which, onOpen }: Props) {
  if (entry.kind === "folder") {
    return (
      <button type="button" class="link" onClick={() => onOpen(path)}>
        {entry.name}/
      </button>
    );
  }
  if (entry.kind !== "file") return <span title="Not a file, or a link that leads out of the job's folder">{entry.name}</span>;
  return (
    <button type="button" class="link" title="Download" onClick={() => void attempt(() => download(which, path, entry.name), "")}>
      {entry.name}
    </button>
  );
}

/** Save a file. No plain link: the session's key goes in a header, never in an address. */
async function download(which: string, path: string, name: string): Promise<void> {
  const asked = { params: { path: { which }, query: { path } }, parseAs: "blob" as const };
  const found = await got(api.GET("/v1/jobs/{which}/files/content", asked));
  const url = URL.createObjectURL(found as unknown as Blob);
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

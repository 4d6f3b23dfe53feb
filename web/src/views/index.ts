// All views, by the first word of their path. The daemon has the same words (src/muster/api/page/files.py).
import type { FunctionComponent } from "preact";

import { Accuracy } from "./accuracy/accuracy";
import { Admin } from "./admin/admin";
import { Cluster } from "./cluster/cluster";
import { JobView } from "./job/job";
import { Pools } from "./pools/pools";
import { Queue } from "./queue/queue";
import { Sweeps } from "./sweeps/sweeps";
import { Timeline } from "./timeline/timeline";
import { WhatIf } from "./whatif/whatif";

export interface View {
  word: string;
  title: string;
  /** Whether the navigation shows it. */
  listed: boolean;
  /** Whether only administrators have a use for it. */
  admin?: boolean;
  Body: FunctionComponent<{ rest: string[] }>;
}

export const VIEWS: View[] = [
  { word: "", title: "Queue", listed: true, Body: Queue },
  { word: "cluster", title: "Cluster", listed: true, Body: Cluster },
  { word: "pools", title: "Pools", listed: true, Body: Pools },
  { word: "timeline", title: "Timeline", listed: true, Body: Timeline },
  { word: "sweeps", title: "Sweeps", listed: true, Body: Sweeps },
  { word: "what-if", title: "What if", listed: true, Body: WhatIf },
  { word: "accuracy", title: "Accuracy", listed: true, Body: Accuracy },
  { word: "admin", title: "Administration", listed: true, admin: true, Body: Admin },
  { word: "jobs", title: "Job", listed: false, Body: JobView },
];

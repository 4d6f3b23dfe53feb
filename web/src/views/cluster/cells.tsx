import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { go } from "../../router";
import { isDark } from "../../ui/theme";
import { draw } from "./draw";
import { hit, layout, type ClusterMap, type Hit } from "./layout";

interface Props {
  map: ClusterMap;
  lit: number | null;
  onLight: (job: number | null) => void;
  onNode: (name: string) => void;
}

/** Every device as a cell. Point at one to see its job's others; click it to open the job. */
export function Cells({ map, lit, onLight, onNode }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [over, setOver] = useState<(Hit & { x: number; y: number }) | null>(null);
  useEffect(() => {
    const measure = new ResizeObserver(([seen]) => setWidth(Math.floor(seen!.contentRect.width)));
    measure.observe(box.current!);
    return () => measure.disconnect();
  }, []);
  const dark = isDark();
  const plan = useMemo(() => layout(map.nodes, Math.max(width, 200)), [map, width]);
  useLayoutEffect(() => {
    if (width) draw(canvas.current!, plan, width, lit, dark);
  }, [plan, width, lit, dark]);
  const found = (event: MouseEvent) => hit(plan, event.offsetX, event.offsetY);
  const moved = (event: MouseEvent) => {
    const at = found(event);
    setOver(at ? { ...at, x: event.offsetX, y: event.offsetY } : null);
    onLight(jobAt(at));
  };
  const clicked = (event: MouseEvent) => {
    const at = found(event);
    const job = jobAt(at);
    if (job !== null) go(`/jobs/${job}`);
    else if (at) onNode(at.node.name);
  };
  const left = () => {
    setOver(null);
    onLight(null);
  };
  const used = map.nodes.reduce((sum, node) => sum + node.jobs.filter(Boolean).length, 0);
  return (
    <div ref={box} class="cells">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`${map.nodes.length} nodes, ${used} devices in use, ${map.free} free; the jobs are listed beside`}
        style={{ height: `${plan.height}px`, cursor: over ? "pointer" : "default" }}
        onMouseMove={moved}
        onMouseLeave={left}
        onClick={clicked}
      />
      {over && <Hint over={over} map={map} width={width} />}
    </div>
  );
}

function jobAt(at: Hit | null): number | null {
  const number = at?.device != null ? (at.node.jobs[at.device] ?? 0) : 0;
  return number > 0 ? number : null;
}

function Hint({ over, map, width }: { over: Hit & { x: number; y: number }; map: ClusterMap; width: number }) {
  const { node, device } = over;
  const number = device != null ? (node.jobs[device] ?? 0) : 0;
  const promised = device != null ? (node.promised[device] ?? 0) : 0;
  const name = (wanted: number) => map.jobs.find((each) => each.number === wanted)?.name ?? `job ${wanted}`;
  const what = number > 0 ? `${name(number)} (${number})` : number < 0 ? "another user's job" : "free";
  const style = { top: `${over.y + 16}px`, [over.x > width / 2 ? "right" : "left"]: `${over.x > width / 2 ? width - over.x : over.x}px` };
  return (
    <div class="hint" style={style} role="presentation">
      <b>{node.name}{device != null ? ` · ${device}` : ""}</b> {node.device_type}
      <br />
      {device != null && what}
      {promised !== 0 && `, withheld for ${promised > 0 ? name(promised) : "another user's job"}`}
      {node.state !== "up" && <div>{node.state}</div>}
      {node.trouble && <div>{node.trouble}</div>}
    </div>
  );
}

// Where each device is drawn: racks below each other, their nodes side by side, devices as cells.
import type { Schemas } from "../../api/client";

export type ClusterMap = Schemas["ClusterMap"];
export type MappedNode = Schemas["MappedNode"];

export interface Tile {
  node: MappedNode;
  at: number;
  x: number;
  y: number;
}

export interface Rack {
  name: string;
  y: number;
}

export interface Layout {
  cell: number;
  gap: number;
  /** Cells of a node beside each other. */
  across: number;
  tileWidth: number;
  tileHeight: number;
  tiles: Tile[];
  racks: Rack[];
  height: number;
  named: boolean;
}

const RACK_HEAD = 22;
const NAME = 16;
const BETWEEN = 10;

/** Lay out all nodes in a width; few devices get large cells and names, many small ones. */
export function layout(nodes: readonly MappedNode[], width: number): Layout {
  const devices = nodes.reduce((sum, node) => sum + node.jobs.length, 0);
  const cell = devices <= 64 ? 30 : devices <= 512 ? 20 : devices <= 2048 ? 12 : devices <= 8192 ? 8 : 6;
  const named = cell >= 12;
  const gap = cell >= 12 ? 3 : 1;
  const most = Math.max(1, ...nodes.map((node) => node.jobs.length));
  const across = Math.min(most, 8);
  const tileWidth = Math.max(across * (cell + gap) + 6, named ? 76 : 0);
  const tileHeight = Math.ceil(most / across) * (cell + gap) + (named ? NAME : 0) + 6;
  const perLine = Math.max(1, Math.floor(width / (tileWidth + 2)));
  const tiles: Tile[] = [];
  const racks: Rack[] = [];
  let y = 0;
  for (const [name, members] of byRack(nodes)) {
    if (name) {
      racks.push({ name, y });
      y += RACK_HEAD;
    }
    members.forEach(([node, at], place) => {
      const line = Math.floor(place / perLine);
      tiles.push({ node, at, x: (place % perLine) * (tileWidth + 2), y: y + line * (tileHeight + 2) });
    });
    y += Math.ceil(members.length / perLine) * (tileHeight + 2) + BETWEEN;
  }
  return { cell, gap, across, tileWidth, tileHeight, tiles, racks, height: y, named };
}

function byRack(nodes: readonly MappedNode[]): Map<string, [MappedNode, number][]> {
  const found = new Map<string, [MappedNode, number][]>();
  const domains = new Set(nodes.map((node) => node.domain)).size;
  nodes.forEach((node, at) => {
    const name = [domains > 1 && node.domain, node.rack].filter(Boolean).join(" / ");
    const members = found.get(name) ?? [];
    members.push([node, at]);
    found.set(name, members);
  });
  return found.size > 1 ? found : new Map([["", [...found.values()].flat()]]);
}

/** The place of a device within its tile. */
export function cellAt(plan: Layout, tile: Tile, device: number): [number, number] {
  const step = plan.cell + plan.gap;
  const top = tile.y + 3 + (plan.named ? NAME : 0);
  return [tile.x + 3 + (device % plan.across) * step, top + Math.floor(device / plan.across) * step];
}

export interface Hit {
  node: MappedNode;
  device: number | null;
}

/** What lies at a point. */
export function hit(plan: Layout, x: number, y: number): Hit | null {
  const tile = plan.tiles.find(
    (each) => x >= each.x && x < each.x + plan.tileWidth && y >= each.y && y < each.y + plan.tileHeight,
  );
  if (!tile) return null;
  const device = tile.node.jobs.findIndex((_, at) => {
    const [left, top] = cellAt(plan, tile, at);
    return x >= left && x < left + plan.cell + plan.gap && y >= top && y < top + plan.cell + plan.gap;
  });
  return { node: tile.node, device: device < 0 ? null : device };
}

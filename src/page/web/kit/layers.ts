export interface Edge {
  readonly from: string
  readonly to: string
  /** The side output where the edge begins. The node at the other end is placed lower. */
  readonly output?: string
}

/** A place in a layer: a node, or an edge that passes through to a later layer. */
export interface Slot {
  readonly key: string
  readonly node?: string
  readonly edge?: number
}

/** The number is odd, so that the last sweep goes forwards and orders each layer by its inputs. */
const SWEEPS = 3
/** How much lower a neighbour at a side output lies, as a share of the height. */
const LOWER = 0.3

interface Link {
  /** Keys of slots in neighbouring layers. */
  readonly from: string
  readonly to: string
  readonly isLow: boolean
}

/**
 * Places nodes in layers from left to right. Each node comes after its inputs. A node with inputs but no readers is in
 * the last layer. Connected nodes have similar heights where possible.
 */
export function layersOf(nodes: readonly string[], edges: readonly Edge[]): Slot[][] {
  const depth = depths(nodes, edges)
  const last = Math.max(0, ...depth.values())
  const read = new Set(edges.map(({ from }) => from))
  const written = new Set(edges.map(({ to }) => to))
  for (const node of nodes) if (!read.has(node) && written.has(node)) depth.set(node, last)
  const layers: Slot[][] = Array.from({ length: last + 1 }, () => [])
  for (const node of nodes) layers[depth.get(node)!]!.push({ key: `node ${node}`, node })
  const links: Link[] = []
  for (const [i, { from, to, output }] of edges.entries()) {
    let before = `node ${from}`
    for (let at = depth.get(from)! + 1; at < depth.get(to)!; at++) {
      const key = `edge ${i} ${at}`
      layers[at]!.push({ key, edge: i })
      links.push({ from: before, to: key, isLow: output !== undefined })
      before = key
    }
    links.push({ from: before, to: `node ${to}`, isLow: output !== undefined })
  }
  return ordered(layers, links)
}

function depths(nodes: readonly string[], edges: readonly Edge[]): Map<string, number> {
  const inputs = new Map(nodes.map(node => [node, [] as string[]]))
  for (const { from, to } of edges) inputs.get(to)?.push(from)
  const depth = new Map<string, number>()
  const visit = (node: string): number => {
    const known = depth.get(node)
    if (known !== undefined) return known
    depth.set(node, 0)
    const found = Math.max(0, ...inputs.get(node)!.map(input => visit(input) + 1))
    depth.set(node, found)
    return found
  }
  for (const node of nodes) visit(node)
  return depth
}

/** Orders the slots of each layer by the mean height of their neighbours in the previous layer or in the next one. */
function ordered(layers: Slot[][], links: readonly Link[]): Slot[][] {
  const height = new Map<string, number>()
  const note = (layer: Slot[]) => {
    for (const [i, { key }] of layer.entries()) height.set(key, (i + 0.5) / layer.length)
  }
  layers.forEach(note)
  const before = Map.groupBy(links, ({ to }) => to)
  const after = Map.groupBy(links, ({ from }) => from)
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isForward = sweep % 2 === 0
    for (const layer of isForward ? layers : layers.toReversed()) {
      const mean = ({ key }: Slot) => {
        const all = (isForward ? before : after).get(key) ?? []
        const heights = all.map(({ from, to, isLow }) =>
          isForward ? height.get(from)! + (isLow ? LOWER : 0) : height.get(to)! - (isLow ? LOWER : 0),
        )
        return all.length === 0 ? height.get(key)! : heights.reduce((sum, one) => sum + one, 0) / all.length
      }
      const means = new Map(layer.map(slot => [slot, mean(slot)]))
      layer.sort((a, b) => means.get(a)! - means.get(b)!)
      note(layer)
    }
  }
  return layers
}

/** Returns `node` and all nodes upstream and downstream of it. */
export function connectedNodes(node: string, edges: readonly Edge[]): Set<string> {
  const follow = (next: (edge: Edge) => readonly [string, string]) => {
    const found = new Set([node])
    for (const one of found) for (const edge of edges) if (next(edge)[0] === one) found.add(next(edge)[1])
    return found
  }
  return new Set([...follow(({ from, to }) => [from, to]), ...follow(({ from, to }) => [to, from])])
}

import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { connectedNodes, type Edge, layersOf } from './layers.js'

export interface FlowEdge extends Edge {
  /** Events per second. */
  readonly flow: number
  /** Whether events wait there. */
  readonly isBlocked: boolean
}

interface Props {
  readonly label: string
  readonly nodes: readonly string[]
  readonly edges: readonly FlowEdge[]
  /**
   * Draws a link to a node. `data-output` marks where edges of a side output begin. `data-leaves`: events per second
   * that leave the pipeline there.
   */
  readonly draw: (node: string) => ComponentChildren
  /** A node whose path stays highlighted. */
  readonly pinned?: string | undefined
  readonly isFound: (node: string) => boolean
}

const WIDEST = 16
const NARROWEST = 1.5
/** Pixels of a column: at least, where columns can share the rest of the width, and at most. */
const [LEAST_COLUMN, USUAL_COLUMN, MOST_COLUMN] = [120, 190, 320]
/** Pixels between columns. */
const [LEAST_GAP, MOST_GAP] = [24, 64]
/** Pixels from the top of a node to the height where its edges begin and end. */
const PORT = 21

/** Minimum width in pixels. */
export const graphWidth = (nodes: readonly string[], edges: readonly Edge[]): number =>
  layersOf(nodes, edges).length * (LEAST_COLUMN + LEAST_GAP) - LEAST_GAP

interface Shape {
  readonly path: string
  readonly width: number
  readonly classes: string
}

/** Draws nodes in layers from left to right. The width of an edge shows its flow. */
export function Graph({ label, nodes, edges, draw, pinned, isFound }: Props) {
  const topology = JSON.stringify([nodes, edges.map(({ from, to, output }) => [from, to, output])])
  const layers = useMemo(() => layersOf(nodes, edges), [topology])
  const box = useRef<HTMLDivElement>(null)
  const shapes = useSignal<readonly Shape[]>([])
  const pointed = useSignal<string | undefined>(undefined)
  const centre = pointed.value ?? pinned
  const path = useMemo(() => (centre === undefined ? undefined : connectedNodes(centre, edges)), [centre, topology])
  const isLit = (node: string) => (path ? path.has(node) : isFound(node))
  const measure = () => {
    if (!box.current) return
    const next = shapesOf(box.current, layers.flat(), edges, isLit)
    if (JSON.stringify(next) !== JSON.stringify(shapes.peek())) shapes.value = next
  }
  useLayoutEffect(measure)
  const latest = useRef(measure)
  latest.current = measure
  useEffect(() => {
    const resized = new ResizeObserver(() => latest.current())
    resized.observe(box.current!)
    return () => resized.disconnect()
  }, [])
  const nodeAt = (event: Event) => (event.target as Element).closest<HTMLElement>('[data-node]')?.dataset.node
  return (
    <div class="scroll">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: it highlights what a link inside is about */}
      {/* biome-ignore lint/a11y/useKeyWithMouseEvents: focusin does the same */}
      <div
        ref={box}
        class="graph"
        style={columnsOf(layers.length)}
        onMouseOver={event => (pointed.value = nodeAt(event))}
        onMouseLeave={() => (pointed.value = undefined)}
        onFocusIn={event => (pointed.value = nodeAt(event))}
        onFocusOut={() => (pointed.value = undefined)}
      >
        <Edges shapes={shapes} />
        <ul aria-label={label}>
          {layers.map((layer, i) => (
            <li key={i}>
              {layer.map(({ key, node }) =>
                node === undefined ? (
                  <div key={key} class="via" data-slot={key} />
                ) : (
                  <div key={key} class={isLit(node) ? 'node' : 'node unlit'} data-slot={key} data-node={node}>
                    {draw(node)}
                  </div>
                ),
              )}
            </li>
          ))}
        </ul>
      </div>
    </div>
  )
}

/** Narrow gaps come before narrow columns. */
const columnsOf = (count: number) => ({
  gridTemplateColumns: `repeat(${count}, minmax(${LEAST_COLUMN}px, ${MOST_COLUMN}px))`,
  columnGap: `clamp(${LEAST_GAP}px, (100% - ${count * USUAL_COLUMN}px) / ${Math.max(1, count - 1)}, ${MOST_GAP}px)`,
})

function Edges({ shapes }: { shapes: { readonly value: readonly Shape[] } }) {
  return (
    <svg class="edges" aria-hidden="true">
      {shapes.value.map(({ path, width, classes }, i) => (
        <path key={i} d={path} stroke-width={width} class={classes} />
      ))}
    </svg>
  )
}

type Box = { readonly left: number; readonly right: number; readonly top: number; readonly bottom: number }

/** Computes the lines between slots from their positions on the page. */
function shapesOf(
  box: HTMLElement,
  slots: readonly { key: string; edge?: number }[],
  edges: readonly FlowEdge[],
  isLit: (node: string) => boolean,
): Shape[] {
  const origin = box.getBoundingClientRect()
  const placed = (element: Element): Box => {
    const { left, right, top, bottom } = element.getBoundingClientRect()
    const [x, y] = [origin.left - box.scrollLeft, origin.top - box.scrollTop]
    return { left: left - x, right: right - x, top: top - y, bottom: bottom - y }
  }
  const elements = new Map([...box.querySelectorAll<HTMLElement>('[data-slot]')].map(one => [one.dataset.slot!, one]))
  const boxes = new Map([...elements].map(([key, element]) => [key, placed(element)]))
  const leaving = [...box.querySelectorAll<HTMLElement>('[data-leaves]')]
  const most = Math.max(1e-9, ...edges.map(({ flow }) => flow), ...leaving.map(one => Number(one.dataset.leaves)))
  const widthOf = (flow: number) => Math.max(NARROWEST, (flow / most) * WIDEST)
  const port = (node: string) => boxes.get(`node ${node}`)!.top + PORT
  const shapes: Shape[] = []

  for (const element of leaving) {
    const { left, top, bottom } = placed(element)
    const node = element.closest<HTMLElement>('[data-node]')!.dataset.node!
    const flow = Number(element.dataset.leaves)
    const width = widthOf(flow)
    const x = left + WIDEST / 2 + 1
    const y = (top + bottom) / 2
    const classes = `leaves${flow > 0 ? '' : ' still'}${isLit(node) ? '' : ' unlit'}`
    shapes.push({
      path: `M${x} ${top - 6}V${y}h7m-4 -4l5 4l-5 4`,
      width: Math.min(width, 3),
      classes,
    })
  }

  /** Heights where edges leave and enter nodes. The edges of a node are stacked in the order of their other ends. */
  const begins = stacked(
    edges,
    ({ from, output }) => (output ? undefined : from),
    ({ to }) => to,
    port,
    widthOf,
  )
  const ends = stacked(
    edges,
    ({ to }) => to,
    ({ from }) => from,
    port,
    widthOf,
  )
  for (const [i, edge] of edges.entries()) {
    const [from, to] = [boxes.get(`node ${edge.from}`)!, boxes.get(`node ${edge.to}`)!]
    const side =
      edge.output === undefined
        ? undefined
        : elements.get(`node ${edge.from}`)!.querySelector(`[data-output="${CSS.escape(edge.output)}"]`)
    const start = side ? placed(side) : undefined
    let [x, y] = [
      start?.right ?? from.right,
      start ? (start.top + start.bottom) / 2 : (begins.get(i) ?? port(edge.from)),
    ]
    let path = `M${x} ${y}`
    const go = (toX: number, toY: number) => {
      const middle = (x + toX) / 2
      path += `C${middle} ${y} ${middle} ${toY} ${toX} ${toY}`
      ;[x, y] = [toX, toY]
    }
    for (const slot of slots) {
      if (slot.edge !== i) continue
      const via = boxes.get(slot.key)!
      go(via.left, (via.top + via.bottom) / 2)
      path += `H${(x = via.right)}`
    }
    go(to.left, ends.get(i)!)
    const classes = [
      edge.isBlocked ? 'blocked' : edge.flow > 0 ? '' : 'still',
      edge.output ? 'side' : '',
      isLit(edge.from) && isLit(edge.to) ? '' : 'unlit',
    ]
    shapes.push({ path, width: widthOf(edge.flow), classes: classes.join(' ').trim() })
  }
  return shapes
}

function stacked(
  edges: readonly FlowEdge[],
  here: (edge: FlowEdge) => string | undefined,
  there: (edge: FlowEdge) => string,
  port: (node: string) => number,
  widthOf: (flow: number) => number,
): Map<number, number> {
  const groups = Map.groupBy(edges.keys(), i => here(edges[i]!))
  const heights = new Map<number, number>()
  for (const [node, group] of groups) {
    if (node === undefined) continue
    group.sort((a, b) => port(there(edges[a]!)) - port(there(edges[b]!)))
    const widths = group.map(i => widthOf(edges[i]!.flow) + 1)
    let y = port(node) - widths.reduce((sum, width) => sum + width, 0) / 2
    for (const [n, i] of group.entries()) {
      heights.set(i, y + widths[n]! / 2)
      y += widths[n]!
    }
  }
  return heights
}

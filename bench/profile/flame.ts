import { escaped, svg, svgText } from '../svg.js'

/** A flame graph of a CPU profile, as one SVG that needs nothing else. */

/** The part of a .cpuprofile that is used. */
export interface Profile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
    readonly children?: readonly number[]
  }[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

interface Frame {
  readonly name: string
  readonly children: Map<string, Frame>
  /** Microseconds in it and in all that it calls. */
  total: number
  /** Microseconds in itself. */
  self: number
}

const WIDTH = 1200
const ROW = 18
const TOP = 48
const CHARACTER = 6.6
const IDLE = new Set(['(idle)', '(program)', '(root)'])

const STYLE = `
  text { font: 11px ui-monospace, monospace; pointer-events: none }
  .title { font: 600 14px system-ui, sans-serif }
  .own { fill: #a5d6ff }
  .package { fill: #ffdfb6 }
  .node { fill: #d1d9e0 }
  .wasm { fill: #aceebb }`
const DARK = `
    .own { fill: #0c2d6b }
    .package { fill: #5a3600 }
    .node { fill: #3d444d }
    .wasm { fill: #033a16 }`

/** The calls of a profile as a tree: the same function called from the same place is one frame. */
export function treeOf({ nodes, samples, timeDeltas }: Profile): Frame {
  const own = new Map<number, number>()
  for (const [i, id] of samples.entries()) own.set(id, (own.get(id) ?? 0) + timeDeltas[i]!)
  const byId = new Map(nodes.map(node => [node.id, node]))
  const root: Frame = { name: 'all', children: new Map(), total: 0, self: 0 }
  const add = (id: number, into: Frame): number => {
    const { callFrame, children = [] } = byId.get(id)!
    if (callFrame.functionName === '(idle)') return 0
    let frame = into
    if (!IDLE.has(callFrame.functionName)) {
      const name = nameOf(callFrame)
      frame = into.children.get(name) ?? { name, children: new Map(), total: 0, self: 0 }
      into.children.set(name, frame)
    }
    const self = own.get(id) ?? 0
    const total = children.reduce((sum, child) => sum + add(child, frame), self)
    frame.self += self
    if (frame !== into) frame.total += total
    return total
  }
  root.total = add(nodes[0]!.id, root)
  return root
}

function nameOf({ functionName, url, lineNumber }: Profile['nodes'][number]['callFrame']): string {
  const where = url === '' ? '' : ` ${url.replace(/^.*\/(node_modules|dist)\//, '$1/').replace(/^file:\/\//, '')}`
  return `${functionName || '(anonymous)'}${where}${url === '' ? '' : `:${lineNumber + 1}`}`
}

function styleOf(name: string): string {
  if (name.includes('wasm')) return 'wasm'
  if (name.includes(' dist/')) return 'own'
  return name.includes(' node_modules/') ? 'package' : 'node'
}

/** Frames of fewer pixels than `narrowest` are left out. */
export function drawFlames(title: string, root: Frame, narrowest: number): string {
  const rects: string[] = []
  let depth = 0
  const draw = (frame: Frame, x: number, level: number) => {
    const width = (frame.total / root.total) * WIDTH
    if (width < narrowest) return
    depth = Math.max(depth, level)
    if (level > 0) rects.push(rectOf(frame, root, x, TOP + (level - 1) * ROW, width))
    let at = x
    const children = [...frame.children.values()].sort((a, b) => b.total - a.total)
    for (const child of children) {
      draw(child, at, level + 1)
      at += (child.total / root.total) * WIDTH
    }
  }
  draw(root, 0, 0)
  const height = TOP + depth * ROW + 12
  const seconds = (root.total / 1e6).toFixed(2)
  const about = `${seconds} s in which the main thread was not idle; point at a frame for its share`
  const content = [svgText(8, 20, title, 'title'), svgText(8, 38, about), ...rects]
  return svg({ width: WIDTH, height, title, style: STYLE, dark: DARK, content })
}

function rectOf(frame: Frame, root: Frame, x: number, y: number, width: number): string {
  const percent = (us: number) => `${((us / root.total) * 100).toFixed(1)} %`
  const about = `${frame.name}: ${percent(frame.total)}, ${percent(frame.self)} in itself`
  const room = Math.floor((width - 4) / CHARACTER)
  const label = room < 4 ? '' : svgText(x + 2, y + 13, frame.name.slice(0, room))
  return `<g><title>${escaped(about)}</title><rect class="${styleOf(frame.name)}" x="${x.toFixed(1)}" y="${y}" width="${Math.max(0.5, width - 0.5).toFixed(1)}" height="${ROW - 1}"/>${label}</g>`
}

import { components } from '../components.js'
import { splitInput } from '../config/input.js'
import { type Config, loadConfig } from '../config/load.js'
import { type Io, UsageError } from './command-line.js'
import { EXIT } from './dispatch.js'

/** One component and what its events go to. */
interface Box {
  readonly id: string
  readonly type: string
  readonly kind: string
}
interface Arrow {
  readonly from: Box
  readonly to: Box
  /** The side output that it leads from; undefined: the main one. */
  readonly outlet: string | undefined
}
interface Topology {
  readonly boxes: readonly Box[]
  readonly arrows: readonly Arrow[]
}

const FORMATS: Readonly<Record<string, (topology: Topology) => string>> = { text, mermaid, dot }
export const FORMAT_NAMES = Object.keys(FORMATS)

/** Draws which component feeds which. */
export function graph(path: string, format: string, io: Pick<Io, 'stdout' | 'stderr' | 'env'>): number {
  const draw = Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined
  if (!draw) throw new UsageError(`--format is one of ${FORMAT_NAMES.join(', ')}`, 'graph')
  io.stdout.write(draw(topologyOf(loadConfig(path, { env: io.env, components }))))
  return EXIT.done
}

function topologyOf(config: Config): Topology {
  const boxes = [...config.sources, ...config.processors, ...config.destinations]
  const arrows = boxes.flatMap(to =>
    to.inputs.map(input => {
      const [id, outlet] = splitInput(input)
      return { from: boxes.find(box => box.id === id)!, to, outlet }
    }),
  )
  return { boxes, arrows }
}

/** A tree from each source; what several lead to is drawn once, and named where it comes again. */
function text({ boxes, arrows }: Topology): string {
  const drawn = new Set<Box>()
  const lines: string[] = []
  const branch = (box: Box, outlet: string | undefined, lead: string, below: string) => {
    const again = drawn.has(box)
    const through = outlet === undefined ? '' : `.${outlet} → `
    lines.push(`${lead}${through}${box.id} (${box.type})${again ? ' ↑' : ''}`)
    if (again) return
    drawn.add(box)
    const next = arrows.filter(({ from }) => from === box)
    for (const [i, arrow] of next.entries()) {
      const last = i === next.length - 1
      branch(arrow.to, arrow.outlet, `${below}${last ? '└─ ' : '├─ '}`, `${below}${last ? '   ' : '│  '}`)
    }
  }
  for (const box of boxes) if (!arrows.some(({ to }) => to === box)) branch(box, undefined, '', '')
  return `${lines.join('\n')}\n`
}

const MERMAID_SHAPES: Readonly<Record<string, readonly [string, string]>> = {
  source: ['([', '])'],
  processor: ['[', ']'],
  destination: ['[(', ')]'],
}

function mermaid({ boxes, arrows }: Topology): string {
  const lines = boxes.map(({ id, type, kind }) => {
    const [open, close] = MERMAID_SHAPES[kind]!
    return `  ${id}${open}"${id}<br/>${type}"${close}`
  })
  for (const { from, to, outlet } of arrows)
    lines.push(`  ${from.id} ${outlet === undefined ? '-->' : `-. ${outlet} .->`} ${to.id}`)
  return `flowchart LR\n${lines.join('\n')}\n`
}

const DOT_SHAPES: Readonly<Record<string, string>> = { source: 'oval', processor: 'box', destination: 'cylinder' }

function dot({ boxes, arrows }: Topology): string {
  const lines = boxes.map(({ id, type, kind }) => `  ${id} [label="${id}\\n${type}", shape=${DOT_SHAPES[kind]}]`)
  for (const { from, to, outlet } of arrows)
    lines.push(`  ${from.id} -> ${to.id}${outlet === undefined ? '' : ` [label="${outlet}", style=dashed]`}`)
  return `digraph sluice {\n  rankdir=LR\n${lines.join('\n')}\n}\n`
}

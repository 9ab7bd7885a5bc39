import { REJECTED } from '../../core/options/delivery-options.js'
import { DISCARDED } from '../../core/processor.js'
import { type DaemonOptions, findSocket } from '../../daemon/admin/daemon-socket.js'
import { type DaemonView, rateOf, statusAt, viewOf } from '../../daemon/admin/daemon-view.js'
import { loadDaemonConfig } from '../../daemon/managed/local-part.js'
import { type Io, UsageError } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { displayWidth, wrap } from '../../daemon/process/wrap.js'
import { componentsOf, splitInput } from '../../engine/config/inputs.js'
import type { Config } from '../../engine/config/load.js'
import { sleep } from '../../lib/time.js'
import { short } from '../../lib/units.js'
import { intervalOf } from './screen-parts.js'

interface Box {
  readonly id: string
  readonly type: string
  readonly kind: string
  /** The component's live values, one per line; empty without a daemon. */
  readonly live: readonly string[]
  readonly held: boolean
}
interface Arrow {
  readonly from: Box
  readonly to: Box
  /** The side output at which the arrow starts; undefined: the main output. */
  readonly output: string | undefined
  /** Events per second; undefined without a daemon. */
  readonly flow: string | undefined
  /** Whether events wait at the arrow. */
  readonly isBlocked: boolean
}
interface Topology {
  readonly boxes: readonly Box[]
  readonly arrows: readonly Arrow[]
}

const FORMATS: Readonly<Record<string, (topology: Topology, width: number) => string>> = { text, mermaid, dot }
export const FORMAT_NAMES = Object.keys(FORMATS)

export interface GraphOptions {
  readonly config: string
  readonly format: string | undefined
  readonly live: boolean
  readonly socket: string | undefined
  readonly interval: string | undefined
}

export async function graph(options: GraphOptions, io: Pick<Io, 'stdout' | 'stderr' | 'env'>): Promise<number> {
  const { config, format = 'text', socket, interval } = options
  const draw = Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined
  if (!draw) throw new UsageError(`--format is one of ${FORMAT_NAMES.join(', ')}`, 'graph')
  const intervalMs = intervalOf(interval ?? '1s', 'graph')
  if (!options.live && (socket ?? interval) !== undefined)
    throw new UsageError('--socket and --interval need --live', 'graph')
  const loaded = await loadDaemonConfig(config, io.env)
  const live = options.live ? await lookLive({ config, socket }, intervalMs, io.env) : undefined
  const { isTTY, columns = 80 } = io.stdout
  io.stdout.write(draw(topologyOf(loaded, live), isTTY ? columns : Number.POSITIVE_INFINITY))
  return EXIT.done
}

function topologyOf(config: Config, live: FlowNumbers | undefined): Topology {
  const all = componentsOf(config)
  const boxes = all.map(({ id, type, kind }): Box => {
    const now = live?.component(id)
    const lines = now ? [now.numbers, now.state].filter(Boolean) : live ? ['does not run'] : []
    return { id, type, kind, live: lines, held: now?.held ?? false }
  })
  const boxOf = (id: string) => boxes.find(box => box.id === id)!
  const arrows = all.flatMap(({ id, inputs }) =>
    inputs.map(input => {
      const [from, output] = splitInput(input)
      const isBlocked = live?.component(id)?.blocked.includes(input) ?? false
      return { from: boxOf(from), to: boxOf(id), output, flow: live?.flow(from, output), isBlocked }
    }),
  )
  return { boxes, arrows }
}

/** Draws a tree per source. Draws a component with several inputs once as a branch, and elsewhere by its name. */
function text({ boxes, arrows }: Topology, width: number): string {
  const drawn = new Set<Box>()
  const lines: string[] = []
  const branch = (box: Box, output: string | undefined, lead: string, below: string) => {
    const again = drawn.has(box)
    const through = output === undefined ? '' : `.${output} → `
    const now = again || box.live.length === 0 ? '' : `  ${box.live.join('; ')}`
    const name = `${lead}${through}${box.id} (${box.type})${again ? ' ↑' : ''}`
    const next = again ? [] : arrows.filter(({ from }) => from === box)
    if (displayWidth(name + now) <= width) lines.push(name + now)
    else {
      const side = `${below}${next.length > 0 ? '│ ' : '  '}`
      lines.push(name, ...(now ? wrap(now, width - side.length, '  ').map(part => side + part) : []))
    }
    if (again) return
    drawn.add(box)
    for (const [i, arrow] of next.entries()) {
      const last = i === next.length - 1
      branch(arrow.to, arrow.output, `${below}${last ? '└─ ' : '├─ '}`, `${below}${last ? '   ' : '│  '}`)
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

/** Words that Mermaid does not accept as the id of a node. It accepts them in upper case, which no component has. */
const MERMAID_KEYWORDS = /^(call|class|click|end|flowchart|graph|href|interpolate|style|subgraph)$/
const mermaidId = ({ id }: Box) => (MERMAID_KEYWORDS.test(id) ? id.toUpperCase() : id)

function mermaid({ boxes, arrows }: Topology): string {
  const lines = boxes.map(box => {
    const { id, type, kind, live } = box
    const [open, close] = MERMAID_SHAPES[kind]!
    return `  ${mermaidId(box)}${open}"${[id, type, ...live].join('<br/>')}"${close}`
  })
  for (const { from, to, output, flow } of arrows) {
    const label = [output, flow].filter(Boolean).join(' ')
    const arrow = output === undefined ? (label ? `-- "${label}" -->` : '-->') : `-. ${quotedIf(flow, label)} .->`
    lines.push(`  ${mermaidId(from)} ${arrow} ${mermaidId(to)}`)
  }
  for (const box of boxes) if (box.held) lines.push(`  style ${mermaidId(box)} ${MERMAID_RED}`)
  const blocked = [...arrows.keys()].filter(i => arrows[i]!.isBlocked)
  if (blocked.length > 0) lines.push(`  linkStyle ${blocked.join()} ${MERMAID_RED}`)
  return `flowchart LR\n${lines.join('\n')}\n`
}

const MERMAID_RED = 'stroke:#d00,stroke-width:3px'

function quotedIf(wanted: unknown, text: string): string {
  return wanted ? `"${text}"` : text
}

const DOT_RED = 'color=red, penwidth=2'
const DOT_SHAPES: Readonly<Record<string, string>> = { source: 'oval', processor: 'box', destination: 'cylinder' }

function dot({ boxes, arrows }: Topology): string {
  const lines = boxes.map(({ id, type, kind, live, held }) => {
    const label = [id, type, ...live].join('\\n')
    return `  "${id}" [label="${label}", shape=${DOT_SHAPES[kind]}${held ? `, ${DOT_RED}` : ''}]`
  })
  for (const { from, to, output, flow, isBlocked } of arrows) {
    const label = [output, flow].filter(Boolean).join(' ')
    const marks = [label && `label="${label}"`, output && 'style=dashed', isBlocked && DOT_RED]
      .filter(Boolean)
      .join(', ')
    lines.push(`  "${from.id}" -> "${to.id}"${marks && ` [${marks}]`}`)
  }
  return `digraph sluice {\n  rankdir=LR\n${lines.join('\n')}\n}\n`
}

interface ComponentNow {
  readonly numbers: string
  readonly state: string
  readonly held: boolean
  readonly blocked: readonly string[]
}

export interface FlowNumbers {
  /**
   * The component's current rates and its state. `held`: whether it is not ready, or makes no progress while others wait
   * for it. `blocked`: the inputs at which events wait. Undefined if the daemon does not run it.
   */
  component(id: string): ComponentNow | undefined
  /** Events per second that leave the component by the output. */
  flow(id: string, output: string | undefined): string
}

/** Gets the daemon's status twice, `intervalMs` apart. */
async function lookLive(options: DaemonOptions, intervalMs: number, env: NodeJS.ProcessEnv): Promise<FlowNumbers> {
  const socket = await findSocket(options, env)
  const view = async () => viewOf(await statusAt(socket))
  const before = await view()
  await sleep(intervalMs)
  return liveBetween(before, await view())
}

export function liveBetween(before: DaemonView, now: DaemonView): FlowNumbers {
  const rate = (id: string, of: Parameters<typeof rateOf>[3]) => rateOf(before, now, id, of)
  return {
    component(id) {
      const component = now.components.find(one => one.id === id)
      if (!component) return undefined
      const [received, sent, discarded] = [
        rate(id, one => one.received),
        rate(id, one => one.sent),
        rate(id, one => one.discarded),
      ]
      const { in_flight: inFlight, state, blocked_inputs: blocked = [] } = component
      const parts = [component.kind === 'source' ? '' : `${short(received)}/s in`, `${short(sent)}/s out`]
      if (discarded > 0) parts.push(`${short(discarded)}/s discarded`)
      if (inFlight > 0) parts.push(`${short(inFlight)} in flight`)
      const destination = now.destinations.find(one => one.id === id)
      const isCause = now.waiting_for.some(wait => wait.for.includes(id))
      const held = isCause || (destination !== undefined && !['ready', 'stopped'].includes(destination.state))
      return { numbers: parts.filter(Boolean).join(', '), state, held, blocked }
    },
    flow(id, output) {
      const isDropped = output === DISCARDED || output === REJECTED
      const events = rate(id, one =>
        isDropped ? one.discarded : output === undefined ? one.sent : one.side_outputs?.[output],
      )
      return `${short(events)}/s`
    },
  }
}

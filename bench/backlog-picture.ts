import { throttleStage } from '../test/support/throttle-stage.js'
import { EVENT_COLOURS, svg, svgBar, svgKey, svgLine, svgText } from './svg.js'

/** Draws what a throttle does with backlog, for each `on_backlog`: runs of the throttle on a manual clock. */

const LIMIT = 10
/** New events a second. */
const RATE = 5
/** Length of the outage and of the run, in seconds. */
const OUTAGE = 12
const SECONDS = 18
const MODES = ['as_live', 'pace', 'pass'] as const

const WIDTH = 760
const LEFT = 196
const RIGHT = 16
const TOP = 56
const PANEL = 104
/** Height of the largest bar. */
const MOST = 78
const STEP = (WIDTH - LEFT - RIGHT) / SECONDS

const STYLE = `
  text { font-size: 12px }${EVENT_COLOURS.light}
  .delayed { fill: #9a670033; stroke: #9a6700 }`
const DARK = `${EVENT_COLOURS.dark}
    .delayed { fill: #d2992233; stroke: #d29922 }`

interface Second {
  passed: number
  discarded: number
  /** Delayed events at its end. */
  waiting: number
}

interface Run {
  readonly seconds: readonly Second[]
  readonly longestMs: number
}

async function runOf(on_backlog: (typeof MODES)[number]): Promise<Run> {
  const { time, through, left } = await throttleStage({ limit: LIMIT, on_backlog })
  const seconds: Second[] = []
  /** When each event arrived. */
  const arrivals: number[] = []
  let waiting = 0
  let longestMs = 0
  const arrive = (count: number) => Array.from({ length: count }, () => ({ n: arrivals.push(time.now()) - 1 }))
  const note = ({ passed, discarded }: Awaited<ReturnType<typeof left>>, now: number) => {
    const second = (seconds[Math.floor(now / 1000)] ??= { passed: 0, discarded: 0, waiting: 0 })
    second.passed += passed.length
    second.discarded += discarded.length
    waiting -= passed.length + discarded.length
    second.waiting = waiting
    for (const line of passed) longestMs = Math.max(longestMs, now - arrivals[(JSON.parse(line) as { n: number }).n]!)
  }
  waiting += OUTAGE * RATE
  note(await through(arrive(OUTAGE * RATE), { isBacklog: true }), 0)
  for (let now = 0; now < SECONDS * 1000; now += 1000 / RATE) {
    if (now > 0) await time.advance(1000 / RATE)
    note(await left(), now)
    waiting++
    note(await through(arrive(1)), now)
  }
  return { seconds, longestMs }
}

function panel(mode: string, { seconds, longestMs }: Run, row: number, largest: number): string[] {
  const bottom = TOP + (row + 1) * PANEL - 14
  const x = (second: number) => LEFT + second * STEP
  const y = (count: number) => bottom - (MOST * count) / largest
  const sum = (name: 'passed' | 'discarded') => seconds.reduce((all, second) => all + second[name], 0)
  const bars = seconds.flatMap(({ passed, discarded }, n) => [
    svgBar('passed', x(n) + 4, y(passed), STEP - 8, bottom - y(passed)),
    svgBar('discarded', x(n) + 4, y(passed + discarded), STEP - 8, y(0) - y(discarded)),
  ])
  const delayed = seconds.slice(
    0,
    seconds.findIndex(({ waiting }) => waiting === 0),
  )
  const steps = delayed.map(({ waiting }, n) => `V${y(waiting).toFixed(1)}H${x(n + 1).toFixed(1)}`)
  const isDelayed = delayed.length > 0
  const facts = [
    `${sum('discarded')} events discarded`,
    isDelayed ? `delayed by up to ${Math.round(longestMs / 1000)} s` : 'not delayed',
    `at most ${Math.max(...seconds.map(({ passed }) => passed))} a second`,
  ]
  return [
    svgText(16, bottom - 62, `on_backlog: ${mode}`, 'title'),
    ...facts.map((fact, i) => svgText(16, bottom - 42 + i * 16, fact, 'note')),
    ...(isDelayed ? [`<path class="delayed" d="M${LEFT} ${bottom}${steps.join('')}V${bottom}Z"/>`] : []),
    ...bars,
    svgLine('axis', LEFT, bottom, WIDTH - RIGHT, bottom),
    svgLine('limit', LEFT, y(LIMIT), WIDTH - RIGHT, y(LIMIT)),
    svgText(LEFT - 6, y(LIMIT) + 4, String(LIMIT), 'note', 'end'),
  ]
}

export async function backlogPicture(): Promise<string> {
  const runs = await Promise.all(MODES.map(runOf))
  const largest = Math.max(...runs.flatMap(({ seconds }) => seconds.map(one => one.passed + one.discarded)))
  const backlog = OUTAGE * RATE
  const name = `${backlog} events of backlog, then ${RATE} a second, and a limit of ${LIMIT} a second`
  const discards = runs.map(({ seconds }, i) => {
    const discarded = seconds.reduce((sum, one) => sum + one.discarded, 0)
    return `${MODES[i]} discards ${discarded}`
  })
  const end = TOP + MODES.length * PANEL
  const content = [
    svgText(16, 22, name, 'title'),
    svgKey(LEFT, 44, 'passed', 'passed'),
    svgKey(LEFT + 90, 44, 'discarded', 'discarded'),
    svgKey(LEFT + 196, 44, 'delayed', 'delayed'),
    ...MODES.flatMap((mode, row) => panel(mode, runs[row]!, row, largest)),
    ...[0, 6, 12, 18].map(second =>
      svgText(LEFT + second * STEP, end + 6, `${second} s`, 'note', second === 18 ? 'end' : 'start'),
    ),
  ]
  const title = `${name}: ${discards.join(', ')}`
  return svg({ width: WIDTH, height: end + 18, title, style: STYLE, dark: DARK, content })
}

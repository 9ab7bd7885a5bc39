import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DemoEvents } from '../src/components/demo/demo-source.js'
import { demoSourceOptions as demoOptions } from '../src/components/demo/options.js'
import { checkout } from '../test/support/checkout.js'
import { programOptions } from '../test/support/program-options.js'
import { backlogPicture } from './backlog-picture.js'
import { SLUICE } from './measure.js'
import { rolloutPicture } from './rollout-picture.js'
import { EVENT_COLOURS, svg, svgBar, svgKey, svgLine, svgText } from './svg.js'
import { workFolder } from './work.js'

/**
 * `npm run bench windows`: draws the pictures of throttles in docs. Each window mode and the throttle of the quickstart
 * are simulated; backlog and the roll-out of a limit are runs of the throttle on a manual clock.
 */

/** Options of the throttle, by the name of the picture. */
const MODES = {
  fixed: { window_mode: 'fixed' },
  aligned: { window_mode: 'aligned' },
  sliding: { window_mode: 'sliding' },
  gcra: { window_mode: 'gcra' },
  'gcra-burst': { window_mode: 'gcra', burst: 2 },
  also: { also: [{ limit: 15, window: '3s' }] },
}
const LIMIT = 10
const WINDOW_MS = 1000
const SECONDS = 5
const START = 1_760_000_000_000

/** A few events at any time, two bursts around the edge of a second, and one in the middle of another. */
const TIMES = [
  ...Array.from({ length: 24 }, (_, n) => 130 + n * 200),
  ...Array.from({ length: 14 }, (_, n) => 790 + n * 15),
  ...Array.from({ length: 14 }, (_, n) => 1015 + n * 15),
  ...Array.from({ length: 30 }, (_, n) => 3300 + n * 15),
].sort((a, b) => a - b)

/** Whether each of the events passes, in order. */
function simulated(options: object, folder: string): boolean[] {
  const config = join(folder, 'sluice.yaml')
  const throttle = { type: 'throttle', inputs: ['in'], limit: LIMIT, window: `${WINDOW_MS}ms`, ...options }
  const text = `sources: { in: { type: stdin, decode: json } }
processors: { limit: ${JSON.stringify(throttle)} }
destinations: { out: { type: blackhole, inputs: [limit] } }
`
  writeFileSync(config, text)
  return decisions(config, 'limit', '.t', TIMES.map(time => `{"t":${START + time}}\n`).join(''))
}

function decisions(config: string, component: string, time: string, input: string): boolean[] {
  const args = [SLUICE, 'simulate', '--config', config, '--component', component, '--time', time, '--decisions']
  const output = execFileSync(process.execPath, args, { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'pipe'] })
  return output
    .trimEnd()
    .split('\n')
    .map(line => (JSON.parse(line) as { decision: string }).decision === 'pass')
}

const WIDTH = 760
const LEFT = 150
const RIGHT = 16
const LANES = { pass: 44, discard: 72 }
const TOP = 104
const BOTTOM = 190
const HEIGHT = 216

const STYLE = `
  text { font-size: 12px }
  .axis { stroke: #d1d9e0 }
  .pass { stroke: #0969da; stroke-width: 1.5 }
  .discard { stroke: #bc4c00; stroke-width: 1.5 }
  .rate { fill: #0969da33; stroke: #0969da; stroke-width: 1.5 }
  .limit { stroke: #1f2328; stroke-dasharray: 5 4 }`
const DARK = `
    .axis { stroke: #3d444d }
    .pass { stroke: #4493f8 }
    .discard { stroke: #f0883e }
    .rate { fill: #4493f833; stroke: #4493f8 }
    .limit { stroke: #f0f6fc }`

const x = (ms: number) => LEFT + ((WIDTH - LEFT - RIGHT) * ms) / (SECONDS * 1000)
const y = (count: number) => BOTTOM - ((BOTTOM - TOP) * count) / (2 * LIMIT)

function drawn(options: object, decisions: readonly boolean[]): string {
  const passed = TIMES.filter((_, i) => decisions[i])
  const most = Math.max(...passed.map(time => countAt(passed, time)))
  const name = Object.entries(options)
    .map(([option, value]) => `${option}: ${typeof value === 'object' ? limitsText(value) : value}`)
    .join(', ')
  const title = `${name}: ${passed.length} of ${TIMES.length} events pass, at most ${most} within a second`
  const ticks = TIMES.map((time, i) => {
    const style = decisions[i] ? 'pass' : 'discard'
    return svgLine(style, x(time), LANES[style] - 14, x(time), LANES[style])
  })
  const seconds = Array.from({ length: SECONDS + 1 }, (_, second) => second * 1000)
  const content = [
    svgText(16, 20, name, 'title'),
    svgText(WIDTH - RIGHT, 20, `limit ${LIMIT} in 1 second`, 'note', 'end'),
    ...seconds.map(ms => svgLine('axis', x(ms), LANES.pass - 16, x(ms), BOTTOM + 4)),
    ...seconds.map(ms => svgText(x(ms), BOTTOM + 18, `${ms / 1000} s`, 'note', 'middle')),
    svgText(16, LANES.pass - 3, 'passes'),
    svgText(16, LANES.discard - 3, 'is discarded'),
    ...ticks,
    svgText(16, TOP + 10, 'passed within'),
    svgText(16, TOP + 26, 'the last second'),
    `<path class="rate" d="${rate(passed)}"/>`,
    svgLine('limit', x(0), y(LIMIT), x(SECONDS * 1000), y(LIMIT)),
    svgText(LEFT - 8, y(LIMIT) + 4, `limit ${LIMIT}`, '', 'end'),
    svgText(LEFT - 8, y(0) + 4, '0', '', 'end'),
  ]
  return svg({ width: WIDTH, height: HEIGHT, title, style: STYLE, dark: DARK, content })
}

const limitsText = (limits: readonly { limit: number; window: string }[]) =>
  limits.map(({ limit, window }) => `limit ${limit} in ${window}`).join(', ')

const countAt = (passed: readonly number[], time: number) =>
  passed.filter(other => other <= time && other > time - WINDOW_MS).length

/** The number of events that passed within the last window, at any time, as the path of an area. */
function rate(passed: readonly number[]): string {
  const changes = [...new Set(passed.flatMap(time => [time, time + WINDOW_MS]))]
    .filter(time => time <= SECONDS * 1000)
    .sort((a, b) => a - b)
  const steps = changes.map(time => `H${x(time).toFixed(1)}V${y(countAt(passed, time)).toFixed(1)}`)
  return `M${x(0)} ${y(0)}${steps.join('')}H${x(SECONDS * 1000)}V${y(0)}Z`
}

const QUICKSTART = join(checkout, 'config/examples/quickstart.yaml')
const APP_SECONDS = 30
const APP_LIMIT = 20
const ROW = 64
const BAR = { width: 13, most: 46 }

/** The events per second of each app of the quickstart, before and behind its throttle. */
function drawnApps(): string {
  const { rate, apps, seed } = demoOptions.parse({})
  const demo = new DemoEvents({ rate, apps, seed })
  const seconds = Array.from({ length: APP_SECONDS }, (_, n) => n)
  const lines = seconds.map(n => demo.next(rate, new Date(START + n * 1000).toISOString())).join('')
  const passes = decisions(QUICKSTART, 'limit_apps', '.timestamp', lines)
  const counts = new Map(apps.map(app => [app, seconds.map(() => ({ passed: 0, discarded: 0 }))]))
  for (const [i, line] of lines.trimEnd().split('\n').entries()) {
    const { app } = JSON.parse(line) as { app: string }
    counts.get(app)![Math.floor(i / rate)]![passes[i] ? 'passed' : 'discarded']++
  }
  const all = passes.length
  const passed = passes.filter(Boolean).length
  const most = Math.max(...[...counts.values()].flat().map(count => count.passed + count.discarded))
  const height = (count: number) => (BAR.most * count) / most
  const left = (n: number) => 96 + n * ((WIDTH - RIGHT - 96) / APP_SECONDS)
  const bar = (style: string, n: number, bottom: number, from: number, count: number) =>
    svgBar(style, left(n), bottom - height(from + count), BAR.width, height(count))
  const bottomOf = (row: number) => 44 + (row + 1) * ROW - 8
  const rows = apps.flatMap((app, row) => {
    const bottom = bottomOf(row)
    const limit = bottom - height(APP_LIMIT)
    return [
      svgText(16, bottom - 26, app),
      ...counts
        .get(app)!
        .flatMap((count, n) => [
          bar('passed', n, bottom, 0, count.passed),
          bar('discarded', n, bottom, count.passed, count.discarded),
        ]),
      svgLine('axis', left(0), bottom, WIDTH - RIGHT, bottom),
      svgLine('limit', left(0), limit, WIDTH - RIGHT, limit),
      svgText(left(0) - 8, limit + 4, String(APP_LIMIT), 'note', 'end'),
    ]
  })
  const name = 'Events per second of four apps, and a throttle of 20 for each'
  const title = `${name}: ${passed} of ${all} events pass; one app at a time is noisy, and the others pass whole`
  const end = bottomOf(apps.length - 1)
  const content = [
    svgText(16, 22, name, 'title'),
    svgKey(WIDTH - 190, 22, 'passed', 'passed'),
    svgKey(WIDTH - 108, 22, 'discarded', 'discarded'),
    ...rows,
    ...[0, 10, 20].map(n => svgText(left(n), end + 18, `${n} s`, 'note')),
    svgText(WIDTH - RIGHT, end + 18, `${APP_SECONDS} s`, 'note', 'end'),
  ]
  return svg({ width: WIDTH, height: end + 30, title, style: EVENT_COLOURS.light, dark: EVENT_COLOURS.dark, content })
}

const { out } = programOptions({ out: join(checkout, 'docs') }).options
const folder = workFolder(tmpdir(), 'windows')
for (const [name, options] of Object.entries(MODES))
  writeFileSync(join(out, `window-${name}.svg`), drawn(options, simulated(options, folder)))
writeFileSync(join(out, 'throttle.svg'), drawnApps())
writeFileSync(join(out, 'backlog-pace.svg'), await backlogPicture())
writeFileSync(join(out, 'throttle-rollout.svg'), await rolloutPicture(folder))

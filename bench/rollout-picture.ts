import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { docBlocks, fileName } from '../test/support/doc-blocks.js'
import { throttleStage } from '../test/support/throttle-stage.js'
import { SLUICE } from './measure.js'
import { EVENT_COLOURS, svg, svgBar, svgKey, svgLine, svgText } from './svg.js'

/**
 * Draws the steps of docs/throttle-rollout.md with the log of that page: simulated, in shadow mode, and enforced. The
 * last two are runs of the throttle on a manual clock.
 */

const PAGE = 'docs/throttle-rollout.md'
const LIMITS = [10, 20, 50, 100, 200]
const LIMIT = 50
const EXCLUDE = "if (.level equal 'error')"
const SECONDS = 600
/** Seconds that share a bar. */
const BAR_SECONDS = 10

const WIDTH = 760
const LEFT = 190
const RIGHT = 16
const ROW = 19
const PANEL = 104
const MOST = 70

const STYLE = `
  text { font-size: 12px }${EVENT_COLOURS.light}
  .would { fill: #0969da44; stroke: #bc4c00 }
  .alert { stroke: #d1242f; stroke-width: 4 }
  .alerts { fill: #d1242f }`
const DARK = `${EVENT_COLOURS.dark}
    .would { fill: #4493f844; stroke: #f0883e }
    .alert { stroke: #f85149 }
    .alerts { fill: #f85149 }`

interface Result {
  readonly limit: number
  readonly passed: number
  readonly discarded: number
  readonly losing_keys: number
  /** The key with the most discarded events first. */
  readonly by_key: readonly { readonly key: string }[]
}

const count = (n: number) => n.toLocaleString('en')

/** By second: the events that reach a throttle, and those that it discards, or would discard. */
async function runOf(lines: readonly string[], mode: 'shadow' | 'enforce') {
  const { time, through, series } = await throttleStage({ limit: LIMIT, key_field: '.app', exclude: EXCLUDE, mode })
  const bySecond = new Map<string, string[]>()
  for (const line of lines) {
    const { time } = JSON.parse(line) as { time: string }
    bySecond.set(time, [...(bySecond.get(time) ?? []), line])
  }
  const decision = mode === 'shadow' ? 'decision=would_discard,mode=shadow' : 'decision=discarded'
  const counted = () => series('sluice_throttle_events_total')[decision]!
  const run = { events: [] as number[], over: [] as number[], passed: 0, discarded: 0 }
  for (const events of bySecond.values()) {
    const before = counted()
    run.passed += (await through(events)).passed.length
    run.events.push(events.length)
    run.over.push(counted() - before)
    await time.advance(1000)
  }
  run.discarded = counted()
  return run
}

type Run = Awaited<ReturnType<typeof runOf>>

const x = (second: number) => LEFT + ((WIDTH - LEFT - RIGHT) * second) / SECONDS

/** The sums of the seconds that share a bar. */
const sums = (values: readonly number[]) =>
  Array.from({ length: SECONDS / BAR_SECONDS }, (_, n) =>
    values.slice(n * BAR_SECONDS, (n + 1) * BAR_SECONDS).reduce((sum, value) => sum + value, 0),
  )

/** Bars of the events within the limit, with those over it, drawn as `over`, above them. */
function bars(run: Run, over: 'discarded' | 'would', bottom: number, largest: number): string[] {
  const overs = sums(run.over)
  return sums(run.events).map((events, n) => {
    const [all, within] = [events, events - overs[n]!].map(value => (MOST * value) / largest) as [number, number]
    const width = x(BAR_SECONDS) - x(0) - 2
    const left = x(n * BAR_SECONDS)
    return (
      svgBar('passed', left, bottom - within, width, within) + svgBar(over, left, bottom - all, width, all - within)
    )
  })
}

/** The seconds in which more than `most` events were discarded within the last minute. */
function alertOf({ over }: Run, most: number): [from: number, to: number] {
  const fires = over.map((_, i) => over.slice(Math.max(0, i - 59), i + 1).reduce((sum, n) => sum + n, 0) > most)
  return [fires.indexOf(true), fires.lastIndexOf(true)]
}

export async function rolloutPicture(folder: string): Promise<string> {
  const blocks = docBlocks(PAGE)
  const made = blocks.find(({ language, words }) => language === 'sh' && words[0] === 'steps')!
  execFileSync('sh', ['-c', made.text], { cwd: folder })
  const log = join(folder, 'log/app.log.1')
  const lines = readFileSync(log, 'utf8').trimEnd().split('\n')
  const options = ['--limit', LIMITS.join(), '--window', '1s', '--key', '.app', '--exclude', EXCLUDE, '--json', log]
  const simulated = execFileSync(process.execPath, [SLUICE, 'simulate', ...options], { encoding: 'utf8' })
  const { results } = JSON.parse(simulated) as { results: Result[] }
  const shadow = await runOf(lines, 'shadow')
  const enforced = await runOf(lines, 'enforce')
  const most = Number(/> (\d+)$/m.exec(blocks.find(block => fileName(block) === 'limit.rules.yaml')!.text)![1])
  const [from, to] = alertOf(enforced, most)
  const largest = Math.max(...sums(shadow.events))

  const noisy = results.find(({ limit }) => limit === LIMIT)!.by_key[0]!.key
  const top = 62
  const width = 250
  const rows = results.flatMap(({ limit, passed, discarded, losing_keys }, i) => {
    const y = top + i * ROW
    const share = (width * passed) / (passed + discarded)
    const apps = losing_keys === 1 ? '1 app' : `${losing_keys} apps`
    return [
      svgText(LEFT - 8, y + 11, `limit ${limit}`, limit === LIMIT ? 'title' : '', 'end'),
      svgBar('passed', LEFT, y, share, 14),
      svgBar('discarded', LEFT + share, y, width - share, 14),
      svgText(
        LEFT + width + 10,
        y + 11,
        `discards ${count(discarded)} events of ${apps}`,
        limit === LIMIT ? 'title' : 'note',
      ),
    ]
  })
  const second = top + LIMITS.length * ROW + PANEL - 16
  const third = second + PANEL
  const step = (y: number, name: string, ...facts: string[]) => [
    svgText(16, y, name, 'title'),
    ...facts.map((fact, i) => svgText(16, y + 18 + i * 16, fact, 'note')),
  ]
  const title = `A log of ten minutes in the steps of a roll-out. Shadow mode passes ${count(shadow.passed)} events and counts ${count(shadow.discarded)} that the limit would discard; enforced, the limit discards ${count(enforced.discarded)}`
  const content = [
    svgText(16, 22, `A log of ten minutes, ${count(lines.length)} events, and the roll-out of a limit`, 'title'),
    svgKey(LEFT, 44, 'passed', 'passed'),
    svgKey(LEFT + 90, 44, 'discarded', 'discarded'),
    svgKey(LEFT + 196, 44, 'would', 'would be discarded'),
    ...step(top + 11, '1. Simulate'),
    ...rows,
    ...step(
      second - MOST + 8,
      '2. Observe, 3. Compare',
      'mode: shadow',
      `delivered ${count(shadow.passed)}`,
      `would_discard ${count(shadow.discarded)}`,
    ),
    ...bars(shadow, 'would', second, largest),
    svgText(x(shadow.over.findLastIndex(over => over > 0)) + 10, second - MOST + 12, noisy),
    svgLine('axis', LEFT, second, WIDTH - RIGHT, second),
    ...step(
      third - MOST + 8,
      '4. Enforce',
      `limit: ${LIMIT}`,
      `delivered ${count(enforced.passed)}`,
      `discarded ${count(enforced.discarded)}`,
    ),
    ...bars(enforced, 'discarded', third, largest),
    svgLine('axis', LEFT, third, WIDTH - RIGHT, third),
    ...step(third + 30, '5. Watch'),
    svgLine('alert', x(from), third + 26, x(to), third + 26),
    svgText(x(from) - 8, third + 30, `more than ${most} discarded in a minute`, 'alerts', 'end'),
    svgText(x(to) + 8, third + 30, 'the alert fires', 'alerts'),
    ...[0, 5, 10].map(minute =>
      svgText(x(minute * 60), third + 52, `${minute} min`, 'note', minute === 10 ? 'end' : 'start'),
    ),
  ]
  return svg({ width: WIDTH, height: third + 64, title, style: STYLE, dark: DARK, content })
}

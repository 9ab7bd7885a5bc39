import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { measure, median, RUN } from '../measure.js'
import { canCount, countingTo, readCount } from './counter.js'
import type { Curve, Point } from './curves.js'
import { Inputs } from './inputs.js'

/** A smaller difference between two runs says nothing. */
const LEAST_SECONDS = 0.02

/** The cost at one value of a curve. */
export interface Cost {
  readonly value: number
  /** Of the lines, without what comes once. */
  readonly cpuSecondsPerMillion: number
  /** As often as at the first value. */
  readonly ratio: number
  /** NaN where they cannot be counted. */
  readonly instructionsPerLine: number
  /** What comes once. */
  readonly onceSeconds: number
  /** NaN where there are too few lines to tell. */
  readonly linesPerSecond: number
  readonly rssBytes: number
}

interface Figures {
  readonly seconds: number
  readonly cpuSeconds: number
  readonly rssBytes: number
  readonly instructions: number
}

/** A configuration with its input. */
interface Prepared {
  readonly lines: number
  /** What the cost is divided by, in millions. */
  readonly units: number
  readonly run: () => Promise<Figures>
}

/** Measures a curve in `folder`: every value in turn, so many times. */
export async function measureCurve(
  curve: Curve,
  { folder, lines, runs, progress }: { folder: string; lines: number; runs: number; progress: (text: string) => void },
): Promise<Cost[]> {
  mkdirSync(folder, { recursive: true })
  const counts = canCount(join(folder, 'count'))
  const inputs = new Inputs(folder)
  const make = (name: string, value: number, share: number) => {
    progress(`${curve.id}: making the input for ${value} ${curve.x}`)
    return prepare(join(folder, name), { curve, value, all: lines * share, inputs, counts })
  }
  const start = curve.less === 'start' ? make('start', curve.values[0]!, 0) : undefined
  // The difference between two runs has nothing of what comes once.
  const points = curve.values.map((value, i) => ({
    long: make(`${i}`, value, 1),
    short: start ?? make(`${i}-short`, value, 0.5),
  }))
  const measured = new Map<Prepared, Figures[]>()
  for (let round = 1; round <= runs; round++) {
    for (const point of new Set(points.flatMap(({ short, long }) => [short, long]))) {
      progress(`${curve.id}: run ${round} of ${runs}, ${point.lines} lines`)
      measured.set(point, [...(measured.get(point) ?? []), await point.run()])
    }
  }
  const of = (point: Prepared, figure: keyof Figures) => median(measured.get(point)!.map(run => run[figure]))
  const costs = points.map(({ short, long }) => {
    const growth = (figure: keyof Figures) => of(long, figure) - of(short, figure)
    const seconds = growth('seconds')
    const cpuSecondsPerMillion = growth('cpuSeconds') / (long.units - short.units)
    return {
      cpuSecondsPerMillion,
      instructionsPerLine: growth('instructions') / (long.lines - short.lines),
      onceSeconds: of(short, 'cpuSeconds') - cpuSecondsPerMillion * short.units,
      linesPerSecond: seconds > LEAST_SECONDS ? (long.lines - short.lines) / seconds : Number.NaN,
      rssBytes: of(long, 'rssBytes'),
    }
  })
  const first = costs[0]!.cpuSecondsPerMillion
  return costs.map((cost, i) => ({ value: curve.values[i]!, ratio: cost.cpuSecondsPerMillion / first, ...cost }))
}

interface Plan {
  readonly curve: Curve
  readonly value: number
  /** Lines, of which the point has a share. */
  readonly all: number
  readonly inputs: Inputs
  /** Whether instructions are counted. */
  readonly counts: boolean
}

function prepare(folder: string, { curve, value, all, inputs, counts }: Plan): Prepared {
  const point: Point = curve.at(value)
  const { files = 1, share = 1, shape, destinations = 1 } = point
  const lines = Math.max(1, Math.round(all * share))
  const input = inputs.of(Math.min(files, lines), lines, shape)
  const { bytes } = input
  mkdirSync(folder)
  const outs = Array.from({ length: destinations }, (_, i) => join(folder, `out-${i}`))
  const [config, state, count] = ['sluice.yaml', 'state', 'count'].map(name => join(folder, name)) as [
    string,
    string,
    string,
  ]
  writeFileSync(config, configOf(point, input.folder, outs, state))
  const run = async () => {
    rmSync(state, { recursive: true, force: true })
    // What was written before is on the disk now, and costs this run nothing.
    spawnSync('sync')
    const measured = await measure([...RUN, config], undefined, counts ? countingTo(count) : [])
    for (const path of outs) {
      const { size } = statSync(path)
      if (size !== bytes) throw new Error(`${path} has ${size} bytes, not ${bytes}`)
      rmSync(path)
    }
    return { ...measured, instructions: counts ? readCount(count) : Number.NaN }
  }
  return { lines, units: (curve.per === 'line' ? lines : bytes / 220) / 1e6, run }
}

function configOf(point: Point, input: string, outs: readonly string[], state: string): string {
  const { decode = 'json', processors = '', output = 'lines' } = point
  return `data_dir: ${JSON.stringify(state)}
metrics: { listen: 127.0.0.1:0 }
sources:
  lines: { type: file, include: [${JSON.stringify(join(input, '*.log'))}], decode: ${decode}, follow: false }
${processors === '' ? '' : `processors:\n${processors}`}destinations:
${outs.map((path, i) => `  d${i}: { type: file, inputs: [${output}], path: ${JSON.stringify(path)}, encoding: raw }\n`).join('')}`
}

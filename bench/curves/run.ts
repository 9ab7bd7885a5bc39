import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Measured, measure, median, RUN } from '../measure.js'
import type { Curve, Point } from './curves.js'
import { writeLines } from './inputs.js'

/** The cost at one value of a curve. */
export interface Cost {
  readonly value: number
  /** Without the start, which is measured with one line. */
  readonly cpuSecondsPerMillion: number
  /** As often as at the first value. */
  readonly ratio: number
  readonly linesPerSecond: number
  readonly rssBytes: number
}

interface Prepared {
  readonly value: number
  readonly lines: number
  readonly bytes: number
  readonly run: () => Promise<Measured>
}

/** Measures a curve in `folder`: every value in turn, so many times. */
export async function measureCurve(
  curve: Curve,
  { folder, lines, runs, progress }: { folder: string; lines: number; runs: number; progress: (text: string) => void },
): Promise<Cost[]> {
  const start = prepare(join(folder, 'start'), curve.at(curve.values[0]!), 1, 0)
  const points = curve.values.map((value, i) => {
    progress(`${curve.id}: making the input for ${value} ${curve.x}`)
    return prepare(join(folder, String(i)), curve.at(value), lines, value)
  })
  const measured = new Map<Prepared, Measured[]>()
  for (let round = 1; round <= runs; round++) {
    for (const point of [start, ...points]) {
      progress(`${curve.id}: run ${round} of ${runs}, ${point.value} ${curve.x}`)
      measured.set(point, [...(measured.get(point) ?? []), await point.run()])
    }
  }
  const of = (point: Prepared, field: (run: Measured) => number) => median(measured.get(point)!.map(field))
  const startCpu = of(start, run => run.cpuSeconds)
  const startSeconds = of(start, run => run.seconds)
  const unit = ({ lines, bytes }: Prepared) => (curve.per === 'line' ? lines : bytes / 220) / 1e6
  const costs = points.map(point => (of(point, run => run.cpuSeconds) - startCpu) / unit(point))
  return points.map((point, i) => ({
    value: point.value,
    cpuSecondsPerMillion: costs[i]!,
    ratio: costs[i]! / costs[0]!,
    linesPerSecond: point.lines / Math.max(0.001, of(point, run => run.seconds) - startSeconds),
    rssBytes: of(point, run => run.rssBytes),
  }))
}

function prepare(folder: string, point: Point, all: number, value: number): Prepared {
  const { files = 1, share = 1, shape, decode = 'json', processors, output = 'lines', destinations = 1 } = point
  const { sources = ['lines'], workers = 0 } = point
  const lines = Math.max(1, Math.round(all * share))
  mkdirSync(folder, { recursive: true })
  const bytes = writeLines(join(folder, 'in'), Math.min(files, lines), lines, shape)
  const outs = Array.from({ length: destinations }, (_, i) => join(folder, `out-${i}`))
  const state = join(folder, 'state')
  const config = join(folder, 'sluice.yaml')
  const source = (id: string, i: number) => {
    const include = join(folder, 'in', sources.length === 1 ? '*.log' : `${i}.log`)
    return `  ${id}: { type: file, include: [${JSON.stringify(include)}], decode: ${decode}, follow: false }\n`
  }
  writeFileSync(
    config,
    `data_dir: ${JSON.stringify(state)}
metrics: { listen: 127.0.0.1:0 }
${workers === 0 ? '' : `workers: ${workers}\n`}sources:
${sources.map(source).join('')}${processors === undefined || processors === '' ? '' : `processors:\n${processors}`}destinations:
${outs.map((path, i) => `  d${i}: { type: file, inputs: [${output}], path: ${JSON.stringify(path)}, encoding: raw }\n`).join('')}`,
  )
  const run = async () => {
    rmSync(state, { recursive: true, force: true })
    const measured = await measure([...RUN, config])
    for (const path of outs) {
      const { size } = statSync(path)
      if (size !== bytes) throw new Error(`${path} has ${size} bytes, not ${bytes}`)
      rmSync(path)
    }
    return measured
  }
  return { value, lines, bytes, run }
}

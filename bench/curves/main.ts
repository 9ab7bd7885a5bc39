import { rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkout } from '../../test/support/checkout.js'
import { NONE, programOptions, runProgram } from '../../test/support/program-options.js'
import { PERFORMANCE_PAGE, writeBetweenMarkers } from '../docs.js'
import { describeMachine, formatMachine } from '../machine.js'
import { show, workFolder } from '../work.js'
import { CURVES, type Curve } from './curves.js'
import { drawCurves } from './picture.js'
import { type Cost, measureCurve } from './run.js'

/** `npm run bench:curves`: how the cost of the daemon grows, with one thing at a time. */

const USAGE = `Usage: npm run bench:curves -- [options]

  --curves LIST  of ${CURVES.map(({ id }) => id).join(',')} (default: all)
  --lines N      lines of the longest runs (default: 8000000)
  --runs N       runs of each value (default: 3)
  --folder DIR   where inputs and outputs go (default: ${tmpdir()})
  --json         one JSON document instead of tables
  --write-docs   writes the picture into docs, and how it was measured
`

const { options } = programOptions(
  { curves: NONE, lines: 8_000_000, runs: 3, folder: tmpdir(), json: false, 'write-docs': false },
  USAGE,
)

/** Empty where there is no value. */
function shown(value: number, show: (value: number) => string): string {
  return Number.isNaN(value) ? '' : show(value)
}

function table(curve: Curve, costs: readonly Cost[]): string {
  const unit = curve.per === 'line' ? 'CPU s per million lines' : 'CPU s per 220 MB'
  const rows = costs.map(cost =>
    [
      cost.value.toLocaleString('en'),
      cost.cpuSecondsPerMillion.toFixed(3),
      cost.ratio.toFixed(2),
      shown(cost.instructionsPerLine, value => Math.round(value).toLocaleString('en')),
      cost.onceSeconds.toFixed(2),
      shown(cost.linesPerSecond, value => (value / 1e6).toFixed(2)),
      Math.round(cost.rssBytes / 1e6),
    ].join(' | '),
  )
  return `**${curve.title}**

| ${curve.x} | ${unit} | ratio to the first | instructions per line | once, CPU s | million lines/s | peak RSS, MB |
|---:|---:|---:|---:|---:|---:|---:|
${rows.map(row => `| ${row} |`).join('\n')}
`
}

async function main(): Promise<void> {
  const ids = options.curves?.split(',')
  const unknown = ids?.find(id => !CURVES.some(curve => curve.id === id))
  if (unknown !== undefined) throw new Error(`there is no curve ${unknown}\n\n${USAGE}`)
  const machine = describeMachine()
  const work = workFolder(options.folder, 'curves')
  const all: { curve: Curve; costs: Cost[] }[] = []
  for (const curve of CURVES) {
    if (ids && !ids.includes(curve.id)) continue
    const folder = join(work, curve.id)
    const { lines, runs } = options
    all.push({ curve, costs: await measureCurve(curve, { folder, progress: show, lines, runs }) })
    rmSync(folder, { recursive: true, force: true })
  }
  show('')
  const about = `Up to ${options.lines} lines a run; medians of ${options.runs} runs, without the start.\n${formatMachine(machine)}\n`
  const text = `${about}\n${all.map(({ curve, costs }) => table(curve, costs)).join('\n')}`
  const json = {
    machine,
    lines: options.lines,
    curves: all.map(({ curve: { id }, costs }) => ({ id, costs })),
  }
  process.stdout.write(options.json ? `${JSON.stringify(json, null, 2)}\n` : text)
  if (!options['write-docs']) return
  writeBetweenMarkers(PERFORMANCE_PAGE, 'bench:curves', `![CPU time, as curves](curves.svg)\n\n${about}`)
  writeFileSync(join(checkout, 'docs/curves.svg'), drawCurves(all))
}

await runProgram('bench:curves', main)

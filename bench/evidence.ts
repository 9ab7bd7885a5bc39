import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { APPS, type Input, makeInput } from './input.js'
import { inTurns, measure, median, RUN } from './measure.js'
import { workFolder } from './work.js'

/** What it costs that a throttle says what it discards: the CPU time of whole runs, each beside one of a plain throttle. */

const ALSO = 'also: [{ limit: 1000000, window: 24 Hours }]'
const TOLD = 'per_key_metrics: { top: 20 }, summary: { every: 1 Seconds }'
const WAYS: Readonly<Record<string, string>> = {
  'metrics by key and summaries': TOLD,
  'two limits': ALSO,
  'metrics by key, summaries and two limits': `${TOLD}, ${ALSO}`,
  persist: 'persist: true',
}

/** A rule for each app, so that each has a limiter of its own. Reading YAML takes a part of the time, and CSV hardly any. */
function rulesOf(limit: number, folder: string): Record<string, string> {
  const apps = Array.from({ length: APPS }, (_, i) => `app-${String(i).padStart(4, '0')}`)
  const file = join(folder, 'limits.csv')
  writeFileSync(file, `key,limit\n${apps.map(app => `${app},${limit}\n`).join('')}`)
  return {
    '1,000 rules by key': `limits: [${apps.map(app => `{ key: ${app}, limit: ${limit} }`).join(', ')}]`,
    '1,000 rules by key in a file': `limits_file: ${JSON.stringify(file)}`,
  }
}

/** Half of the lines of each app are discarded. */
async function cpuOf(input: Input, folder: string, more: string): Promise<number> {
  const config = join(folder, 'sluice.yaml')
  const limit = Math.floor(input.lines / APPS / 2)
  writeFileSync(
    config,
    `data_dir: ${JSON.stringify(join(folder, 'state'))}
metrics: { listen: 127.0.0.1:0 }
sources: { lines: { type: file, include: [${JSON.stringify(input.path)}], decode: json, follow: false } }
processors: { limit_app: { type: throttle, inputs: [lines], limit: ${limit}, window: 1 Hours, key_field: .app${more && `, ${more}`} } }
destinations: { copy: { type: file, inputs: [limit_app], path: ${JSON.stringify(join(folder, 'out.ndjson'))}, encoding: raw } }
`,
  )
  try {
    return (await measure([...RUN, config])).cpuSeconds
  } finally {
    for (const name of ['state', 'out.ndjson']) rmSync(join(folder, name), { recursive: true, force: true })
  }
}

/** The CPU seconds of a plain throttle, and by what it does besides the CPU time in relation to it. */
export async function measureEvidence(folder: string, lines: number, runs: number, progress: (text: string) => void) {
  const work = workFolder(folder, 'evidence')
  const input = makeInput(work, lines, progress)
  const ways = { ...WAYS, ...rulesOf(Math.floor(input.lines / APPS / 2), work) }
  const pairs = await inTurns(Object.keys(ways), runs, async (way, run) => {
    progress(run === 0 ? 'warming up' : `run ${run} of ${runs}: ${way}`)
    return [await cpuOf(input, work, ''), await cpuOf(input, work, ways[way]!)] as const
  })
  const plain = median([...pairs.values()].flatMap(all => all.map(([before]) => before)))
  const ratio = (all: readonly (readonly [number, number])[]) => median(all.map(([before, after]) => after / before))
  return { lines, runs, plain, ratios: Object.fromEntries([...pairs].map(([way, all]) => [way, ratio(all)])) }
}

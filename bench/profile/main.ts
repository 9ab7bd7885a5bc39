import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NONE, programOptions, runProgram } from '../../test/support/program-options.js'
import { makeInput } from '../input.js'
import { profiled } from '../jobs.js'
import { withNodeOptions } from '../measure.js'
import { workFolder } from '../work.js'
import { drawFlames, type Profile, treeOf } from './flame.js'

/** `npm run bench profile -- J2`: where the CPU time of a job of the benchmark goes, as a flame graph. */

const USAGE = `Usage: npm run bench profile -- [options] JOB

JOB is one of ${profiled.map(({ id, title }) => `${id} (${title})`).join(', ')}.

  --lines N      lines of the input (default: 4000000)
  --out DIR      where JOB.svg and JOB.cpuprofile go (default: .build/profiles)
  --folder DIR   where the input and the output go (default: ${tmpdir()})
  --narrowest N  leave out frames of fewer pixels (default: 0.5)
  --note TEXT    stands behind the title of the picture

SLUICE_BENCH_COMMAND=CHECKOUT/dist/src/cli/main.js profiles the build of another checkout.
`
/** Microseconds between two samples. */
const INTERVAL = 500
const MOST_LISTED = 15

const { options, operands } = programOptions(
  { lines: 4_000_000, out: '.build/profiles', folder: tmpdir(), narrowest: 0.5, note: NONE },
  USAGE,
  true,
)

async function main(): Promise<void> {
  const job = profiled.find(({ id }) => id === operands[0]?.toUpperCase())
  if (!job) throw new Error(`there is no job ${operands[0] ?? ''}\n\n${USAGE}`)
  const work = workFolder(options.folder, 'profile')
  const input = makeInput(work, options.lines, () => {}, job.input)
  const profiles = join(work, 'profiles')
  await withNodeOptions(['--cpu-prof', `--cpu-prof-interval=${INTERVAL}`, `--cpu-prof-dir=${profiles}`], () =>
    job.run(input, work, false),
  )
  // A profile of a thread besides the main one is small.
  const texts = readdirSync(profiles).map(name => readFileSync(join(profiles, name), 'utf8'))
  const text = texts.reduce((a, b) => (b.length > a.length ? b : a))
  const tree = treeOf(JSON.parse(text) as Profile)
  mkdirSync(options.out, { recursive: true })
  const path = (end: string) => join(options.out, `${job.id}.${end}`)
  writeFileSync(path('cpuprofile'), text)
  const note = options.note === undefined ? '' : `, ${options.note}`
  const title = `${job.id}: ${job.title}, ${options.lines} lines${note}`
  writeFileSync(path('svg'), drawFlames(title, tree, options.narrowest))
  const own = new Map<string, number>()
  const collect = (frame: ReturnType<typeof treeOf>) => {
    own.set(frame.name, (own.get(frame.name) ?? 0) + frame.self)
    for (const child of frame.children.values()) collect(child)
  }
  collect(tree)
  for (const [name, us] of [...own].sort((a, b) => b[1] - a[1]).slice(0, MOST_LISTED))
    process.stdout.write(`${((us / tree.total) * 100).toFixed(1).padStart(5)} %  ${name}\n`)
  process.stdout.write(`${path('svg')}\n${path('cpuprofile')}\n`)
}

await runProgram('profile', main)

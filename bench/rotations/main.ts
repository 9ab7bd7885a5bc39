import { tmpdir } from 'node:os'
import { programOptions, runProgram } from '../../test/support/program-options.js'
import { PERFORMANCE_PAGE, writeBetweenMarkers } from '../docs.js'
import { describeMachine, formatMachine } from '../machine.js'
import { show, workFolder } from '../work.js'
import { measureRotations, type Rotations } from './rotations.js'

/** `npm run bench:rotations`: what it costs to rotate many files at once. */

const USAGE = `Usage: npm run bench:rotations -- [options]

  --files LIST   numbers of files (default: 1000,3000,10000)
  --ways LIST    of one, tens, few, copies: all files in one folder, in folders of ten, in one folder with 256
                 descriptors, or in one folder, copied and truncated (default: one,tens,few)
  --write-docs   writes the table into docs/performance.md
`
const WAYS: Readonly<Record<string, { title: string; of(files: number): Omit<Rotations, 'files'> }>> = {
  one: { title: 'one folder', of: files => ({ inFolder: files }) },
  tens: { title: 'folders of ten', of: () => ({ inFolder: 10 }) },
  copies: { title: 'copied and truncated', of: files => ({ inFolder: files, copies: true }) },
  few: { title: '256 descriptors', of: files => ({ inFolder: files, maxOpenFiles: 256 }) },
}
const LEGEND =
  'CPU time per 1,000 files, and the longest time for which the event loop was held; of the slower of two rotations:'

const { options } = programOptions({ files: '1000,3000,10000', ways: 'one,tens,few', 'write-docs': false }, USAGE)

await runProgram('bench:rotations', async () => {
  const machine = formatMachine(describeMachine())
  const [ways, numbers] = [options.ways.split(','), options.files.split(',').map(Number)]
  const rows = numbers.map(files => [files.toLocaleString('en')])
  for (const way of ways)
    for (const [n, files] of numbers.entries()) {
      const { title, of } = WAYS[way]!
      show(`${files} files, ${title}`)
      const asked = { files, ...of(files) }
      const { rotations, stopSeconds } = await measureRotations(workFolder(tmpdir(), 'rotations'), asked)
      const most = (value: (one: (typeof rotations)[number]) => number) => Math.max(...rotations.map(value))
      const cpu = (most(one => one.cpuSeconds) / files) * 1000
      rows[n]!.push(`${cpu.toFixed(2)} s, ${most(one => one.heldMs).toFixed(0)} ms`)
      const answer = most(one => one.answerMs).toFixed(0)
      show(`${rows[n]!.at(-1)!}; /healthz within ${answer} ms, stop within ${stopSeconds.toFixed(1)} s`)
    }
  const head = ['files', ...ways.map(way => WAYS[way]!.title)]
  const table = [head, head.map(() => '--:'), ...rows].map(row => `| ${row.join(' | ')} |`).join('\n')
  const text = `${machine}\n${LEGEND}\n\n${table}`
  if (options['write-docs']) writeBetweenMarkers(PERFORMANCE_PAGE, 'bench:rotations', text)
  process.stdout.write(`${text}\n`)
})

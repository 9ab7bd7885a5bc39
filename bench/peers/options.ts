import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { checkout } from '../../test/support/checkout.js'
import { NONE, programOptions } from '../../test/support/program-options.js'
import { PEER_IDS, type PeerId } from './bring.js'
import { JOBS, type JobId } from './peer.js'

const USAGE = `Usage: npm run bench:peers -- [options]

Compares Sluice with other log shippers on this machine. Needs Linux.

  --peers LIST     of ${PEER_IDS.join(',')} (default: all but earlier)
  --jobs LIST      of ${Object.keys(JOBS).join(',')} (default: all)
  --lines N        lines of the input, 1000 at least (default: 8000000)
  --runs N         runs of each pair of programs (default: 3)
  --fluent-bit PATH, --vector PATH, --rsyslog PATH, --syslog-ng PATH, --otelcol PATH, --promtail PATH, --filebeat PATH
                   the executable to compare with, instead of a search for it
  --earlier PATH   main.js of another build of Sluice
  --folder DIR     where the input and the outputs go (default: ${tmpdir()})
  --keep           leaves the input there for the next time
  --cache DIR      where programs are unpacked and built (default: .build/peers)
  --out DIR        where peers.jsonl and peers.svg go (default: .build/peers/results)
  --write-docs     puts a summary into docs/performance.md and the pictures into docs as well
`

export type Options = ReturnType<typeof readOptions>

const cache = join(checkout, '.build/peers')

export function readOptions() {
  const { options } = programOptions(
    {
      ...{ peers: PEER_IDS.filter(id => id !== 'earlier').join(','), jobs: Object.keys(JOBS).join(',') },
      ...{ lines: 8_000_000, runs: 3, folder: tmpdir(), keep: false, 'write-docs': false },
      ...{ cache, out: join(cache, 'results') },
      ...{
        rsyslog: NONE,
        'syslog-ng': NONE,
        otelcol: NONE,
        promtail: NONE,
        filebeat: NONE,
        'fluent-bit': NONE,
        vector: NONE,
        earlier: NONE,
      },
    },
    USAGE,
  )
  const given: Partial<Record<PeerId, string>> = {}
  for (const id of PEER_IDS) if (id !== 'loop' && options[id] !== undefined) given[id] = resolve(options[id])
  return {
    peers: listOf('--peers', options.peers, PEER_IDS),
    jobs: listOf('--jobs', options.jobs, Object.keys(JOBS) as JobId[]),
    lines: atLeast(1000, '--lines', options.lines),
    runs: atLeast(1, '--runs', options.runs),
    given: given as Readonly<Partial<Record<PeerId, string>>>,
    folder: resolve(options.folder),
    keep: options.keep,
    cache: resolve(options.cache),
    out: resolve(options.out),
    writeDocs: options['write-docs'],
  }
}

/** In the order of `known`. */
function listOf<T extends string>(option: string, text: string, known: readonly T[]): T[] {
  const wanted = text.split(',').map(id => id.trim().toLowerCase())
  const unknown = wanted.find(id => !known.some(one => one.toLowerCase() === id))
  if (unknown !== undefined) throw new Error(`${option}: unknown "${unknown}"; known are ${known.join(', ')}`)
  return known.filter(one => wanted.includes(one.toLowerCase()))
}

function atLeast(least: number, option: string, value: number): number {
  if (Number.isInteger(value) && value >= least) return value
  throw new Error(`${option} must be a whole number of at least ${least}, not ${value}`)
}

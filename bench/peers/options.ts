import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { CHECKOUT } from '../checkout.js'
import { PEER_IDS, type PeerId } from './bring.js'
import { JOBS, type JobId } from './peer.js'

export const USAGE = `Usage: npm run bench:peers -- [options]

Compares Sluice with other log shippers on this machine. Needs Linux.

  --peers LIST     of ${PEER_IDS.join(',')} (default: all but earlier)
  --jobs LIST      of ${Object.keys(JOBS).join(',')} (default: all)
  --lines N        lines of the input, 1000 at least (default: 8000000)
  --runs N         runs of each pair of programs (default: 3)
  --fluent-bit PATH, --vector PATH, --rsyslog PATH, --syslog-ng PATH, --otelcol PATH
                   the executable to compare with, instead of a search for it
  --earlier PATH   main.js of another build of Sluice
  --folder DIR     where the input and the outputs go (default: ${tmpdir()})
  --keep           leaves the input there for the next time
  --cache DIR      where programs are unpacked and built (default: .build/peers)
  --out DIR        where peers.jsonl and peers.svg go (default: .build/peers/results)
  --write-docs     puts the table into docs/performance.md and the picture into docs/peers.svg as well
  --help
`

export interface Options {
  readonly peers: readonly PeerId[]
  readonly jobs: readonly JobId[]
  readonly lines: number
  readonly runs: number
  readonly given: Readonly<Partial<Record<PeerId, string>>>
  readonly folder: string
  readonly keep: boolean
  readonly cache: string
  readonly out: string
  readonly writeDocs: boolean
  readonly help: boolean
}

const cache = join(CHECKOUT, '.build/peers')

export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      peers: { type: 'string', default: PEER_IDS.filter(id => id !== 'earlier').join(',') },
      jobs: { type: 'string', default: Object.keys(JOBS).join(',') },
      lines: { type: 'string', default: '8000000' },
      runs: { type: 'string', default: '3' },
      rsyslog: { type: 'string' },
      'syslog-ng': { type: 'string' },
      otelcol: { type: 'string' },
      'fluent-bit': { type: 'string' },
      vector: { type: 'string' },
      earlier: { type: 'string' },
      folder: { type: 'string', default: tmpdir() },
      keep: { type: 'boolean', default: false },
      cache: { type: 'string', default: cache },
      out: { type: 'string', default: join(cache, 'results') },
      'write-docs': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const given: Partial<Record<PeerId, string>> = {}
  for (const id of PEER_IDS) if (id !== 'loop' && values[id] !== undefined) given[id] = resolve(values[id])
  return {
    peers: listOf('--peers', values.peers, PEER_IDS),
    jobs: listOf('--jobs', values.jobs, Object.keys(JOBS) as JobId[]),
    lines: atLeast(1000, '--lines', values.lines),
    runs: atLeast(1, '--runs', values.runs),
    given,
    folder: resolve(values.folder),
    keep: values.keep,
    cache: resolve(values.cache),
    out: resolve(values.out),
    writeDocs: values['write-docs'],
    help: values.help,
  }
}

/** In the order of `known`. */
function listOf<T extends string>(option: string, text: string, known: readonly T[]): T[] {
  const wanted = text.split(',').map(id => id.trim().toLowerCase())
  const unknown = wanted.find(id => !known.some(one => one.toLowerCase() === id))
  if (unknown !== undefined) throw new Error(`${option}: unknown "${unknown}"; known are ${known.join(', ')}`)
  return known.filter(one => wanted.includes(one.toLowerCase()))
}

function atLeast(least: number, option: string, text: string): number {
  const value = Number(text)
  if (Number.isInteger(value) && value >= least) return value
  throw new Error(`${option} must be a whole number of at least ${least}, not ${text}`)
}

import { readFileSync } from 'node:fs'

/**
 * What a run does, as plain data: how the daemon is configured, and what happens to it, step by step. Made up front of
 * a seed alone, so that it can be written down, cut shorter and run again.
 */

export const THROUGH = ['filter', 'waits', 'throws', 'throttle', 'paced', 'edit', 'redact', 'route', 'parse'] as const

export interface Setup {
  /** raw: the lines as they are. text: JSON objects around the lines. json: the lines are JSON objects themselves. */
  readonly format: 'raw' | 'text' | 'json'
  /** narrow: rotated files leave the pattern. wide: they stay in it. listed: paths instead of patterns. */
  readonly glob: 'narrow' | 'wide' | 'listed'
  readonly inFlight: number | 'auto'
  readonly batchEvents: number
  readonly compression: 'none' | 'gzip'
  readonly tls: boolean
  /** Limit of one attempt. When short it passes on a busy machine too, and a retry proves nothing. */
  readonly timeoutMs: number
  readonly partialMs: number
  readonly rotateWaitMs: number
  readonly scanMs: number
  readonly openFiles: number
  readonly lineBytes: number
  /** Every file begins with the same line. */
  readonly header: boolean
  /** Lines end with CR LF. */
  readonly crlf: boolean
  /** What is between the source and the destination: processors that pass everything on. */
  readonly through: 'none' | (typeof THROUGH)[number]
  readonly buffer: 'memory' | 'disk'
  /** Where state and logs are: in the temporary folder, or on small file systems of their own, which can be full. */
  readonly state: 'folder' | 'tmpfs'
  readonly logs: 'folder' | 'tmpfs'
}

/** What a run is made of when a dimension plays no part in it: shrinking goes there. */
export const PLAIN: Setup = {
  format: 'raw',
  glob: 'narrow',
  inFlight: 1,
  batchEvents: 1000,
  compression: 'none',
  tls: false,
  timeoutMs: 10_000,
  partialMs: 600_000,
  rotateWaitMs: 60_000,
  scanMs: 50,
  openFiles: 4096,
  lineBytes: 1 << 20,
  header: false,
  crlf: false,
  through: 'none',
  buffer: 'memory',
  state: 'folder',
  logs: 'folder',
}

export const SLOTS = ['a', 'b', 'c', 'link'] as const
/** The logs of a run, by the number that steps use. The last is a symbolic link to its file. */
export type Slot = number

export type Fault =
  | { readonly fault: 'status'; readonly status: number; readonly retryAfter?: number; readonly early?: boolean }
  /** Refused until the access key is another. */
  | { readonly fault: 'key'; readonly status: 401 | 403 }
  | { readonly fault: 'reset'; readonly when: 'before' | 'after' | 'answer'; readonly stored: boolean }
  | { readonly fault: 'hang'; readonly when: 'before' | 'after'; readonly stored: boolean }
  | { readonly fault: 'slow'; readonly ms: number }
  | { readonly fault: 'too_large'; readonly events: number }
  | { readonly fault: 'refuse'; readonly status: number }
  /** One half of the next large request is accepted, the other refused. */
  | { readonly fault: 'half'; readonly status: number }
  /**
   * Single events of a request are refused by their index. With 207 the others are taken, up to those at the end that
   * are to come again; with 4xx none is.
   */
  | { readonly fault: 'some'; readonly status: 207 | 400 | 422; readonly every: number; readonly again: 0 | 429 | 503 }
  | { readonly fault: 'tls' }
  /** For long: no step heals it but another fault that lasts. */
  | { readonly fault: 'gone'; readonly long?: boolean }

/** What is waited for before a file is destroyed: nothing, that the daemon has it open, that all of it was delivered. */
export type Patience = 'none' | 'open' | 'taken'

/** Documents of the checkpoint, the newest and the one before it, or files of the disk buffer. */
export type Damaged = 'newest' | 'before' | 'both' | 'ledger' | 'segment'

export type Step =
  | { do: 'append'; slot: Slot; lines: number; bytes: number; tear: number; writes: number }
  | {
      do: 'rotate'
      slot: Slot
      names: 'numbers' | 'dates'
      create: boolean
      keep: boolean
      depth: number
      wait: Patience
    }
  | { do: 'copytruncate'; slot: Slot; names: 'numbers' | 'dates'; depth: number; wait: Patience; lines: number }
  | { do: 'gzip'; slot: Slot; wait: Patience }
  | { do: 'archive'; slot: Slot; wait: Patience }
  | { do: 'delete'; slot: Slot; recreate: boolean; keep: boolean; lines: number; wait: Patience }
  | { do: 'replace'; slot: Slot; lines: number; wait: Patience }
  | { do: 'swap'; slots: Slot[] }
  | { do: 'bring_back'; slot: Slot }
  | { do: 'hard_link'; slot: Slot; inside: boolean }
  | { do: 'unlink'; slot: Slot }
  | { do: 'switch'; lines: number; inside: boolean; drop: boolean; wait: Patience }
  | { do: 'empty'; slot: Slot }
  | { do: 'late'; lines: number }
  | { do: 'receiver'; fault: Fault; times?: number }
  | { do: 'heal' }
  | { do: 'kill' }
  | { do: 'term'; wait: boolean }
  | { do: 'start'; wait: boolean }
  | { do: 'restart'; signal: 'KILL' | 'TERM' }
  | { do: 'freeze' }
  | { do: 'thaw' }
  /** all: the file system of the state can only be read. */
  | { do: 'unwritable'; all?: boolean }
  | { do: 'full'; where: 'state' | 'logs' }
  | { do: 'writable' }
  | { do: 'damage'; which: Damaged; how: 'empty' | 'cut' | 'flip'; at: number }
  | { do: 'saved' }
  | { do: 'taken' }
  | { do: 'pause'; ms: number }

export interface Scenario {
  /** For people: what it is about, or where it comes from. */
  readonly note: string
  readonly setup: Setup
  readonly steps: readonly Step[]
}

/** A scenario from a file: what its setup leaves out is plain. */
export function readScenario(path: string): Scenario {
  const { note, setup, steps } = JSON.parse(readFileSync(path, 'utf8')) as Scenario
  return { note, setup: { ...PLAIN, ...setup }, steps }
}

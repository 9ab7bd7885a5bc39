import { crc32 } from 'node:zlib'
import { errorCode, errorText } from '../../../core/errors.js'
import { refuseNewer, StateUnreadable } from '../../../core/unreadable.js'
import { type BufferFile, type BufferFolder, retried } from './files.js'
import type { Range, RecordCursor } from './incoming.js'
import type { LogPosition, Segments } from './segments.js'

/** The recovered contents of a buffer's folder, ready for reading and writing. */
export interface Recovered {
  readonly segments: Segments
  readonly ledger: LedgerFound
  /** Where reading resumes. Everything before it is settled. */
  readonly settled: RecordCursor & LogPosition
  /** Settled ranges after `settled`, in order. */
  readonly ahead: readonly Range[]
  readonly end: LogPosition
  /** Number of bytes after the last intact record. Without `readOnly`, the recovery tries to cut them off. */
  readonly tornBytes: number
}

/**
 * Records how far a buffer's events are settled. The file has two slots, which are written in turn, so that one of them
 * is always intact. Both slots are allocated at the start, so that progress can be recorded even on a full disk. If the
 * ledger is lost or outdated, events are repeated but not lost.
 */

/** How many ranges fit into a slot, even if the numbers in them are large. */
export const MOST_RANGES = 20

export interface LedgerState {
  /** Everything before this place is settled. The place may lie within the record at the cursor. */
  readonly settled: RecordCursor & LogPosition
  /** Settled ranges after `settled`, in order, at most MOST_RANGES. */
  readonly ahead: readonly Range[]
  /** The place after the last record that was safe on disk when this state was saved. */
  readonly end: LogPosition
  /** The highest segment number ever used. */
  readonly highest: number
}

const NAME = 'ledger'
const FORMAT = 2
/** Each slot has its own disk block. */
const SLOT_SIZE = 4096
const SLOTS = 2

/** The newest intact state in the file. `turn`: the number of this state's write; 0 if no state is intact. */
export interface LedgerFound {
  readonly state: LedgerState | undefined
  readonly turn: number
  /** Whether the file exists but has no intact state. */
  readonly damaged: boolean
}

/** Throws StateUnreadable if a ledger exists but cannot be read. Such a ledger must not be replaced. */
export async function readLedger(folder: BufferFolder): Promise<LedgerFound> {
  try {
    return await retried(() => read(folder))
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return { state: undefined, turn: 0, damaged: false }
    throw new StateUnreadable(`${folder.path}/${NAME}`, error)
  }
}

async function read(folder: BufferFolder): Promise<LedgerFound> {
  const file = await folder.open(NAME)
  try {
    const bytes = Buffer.alloc(SLOT_SIZE * SLOTS)
    const size = await file.read(bytes, 0)
    const slots = Array.from({ length: SLOTS }, (_, i) => readSlot(bytes.subarray(i * SLOT_SIZE, (i + 1) * SLOT_SIZE)))
    const newest = slots.reduce((a, b) => (b && (!a || b.turn > a.turn) ? b : a))
    return newest ? { ...newest, damaged: false } : { state: undefined, turn: 0, damaged: size > 0 }
  } finally {
    await file.close().catch(() => {})
  }
}

/** Removes the ledger. Otherwise, its old state could reappear later beside a new state. */
export async function removeLedger(folder: BufferFolder): Promise<void> {
  try {
    await folder.remove(NAME)
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return
    const message = `${folder.path}/${NAME} can neither be read nor removed: ${errorText(cause)}`
    throw new Error(message, { cause })
  }
}

function readSlot(slot: Buffer): { turn: number; state: LedgerState } | undefined {
  const [sum, text = ''] = slot.toString('latin1').trimEnd().split(' ', 2)
  if (sum !== checksum(text)) return undefined
  const { sluice_buffer: format, turn, ...state } = JSON.parse(text) as LedgerState & Record<string, number>
  refuseNewer(format, FORMAT)
  return turn !== undefined ? { turn, state } : undefined
}

function writeSlot(turn: number, state: LedgerState): Buffer {
  const text = JSON.stringify({ sluice_buffer: FORMAT, turn, ...state })
  return Buffer.from(`${checksum(text)} ${text}`.padEnd(SLOT_SIZE - 1).concat('\n'))
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, '0')
}

/** Writes the states of one buffer. Calls must not overlap. */
export class Ledger {
  readonly #folder: BufferFolder
  #turn: number
  #file: BufferFile | undefined

  constructor(folder: BufferFolder, turn: number) {
    this.#folder = folder
    this.#turn = turn
  }

  /** Resolves when the state is on disk. Rejects if writing fails; the previous state is then still on disk. */
  async write(state: LedgerState): Promise<void> {
    const turn = this.#turn + 1
    const slot = writeSlot(turn, state)
    try {
      if (this.#file) await this.#file.write([slot], (turn % SLOTS) * SLOT_SIZE)
      else await this.#begin(turn, slot)
      await this.#file!.sync()
    } catch (error) {
      await this.close()
      throw error
    }
    this.#turn = turn
  }

  async #begin(turn: number, slot: Buffer): Promise<void> {
    try {
      this.#file = await this.#folder.open(NAME)
      await this.#file.write([slot], (turn % SLOTS) * SLOT_SIZE)
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error
      await this.#folder.make()
      this.#file = await this.#folder.create(NAME)
      await this.#file.write(Array(SLOTS).fill(slot), 0)
      await this.#folder.sync()
    }
  }

  /** Removes the file. Returns true if the removal is synced, so that the file cannot reappear. */
  async remove(): Promise<boolean> {
    await this.close()
    try {
      await removeLedger(this.#folder)
      await this.#folder.sync()
      return true
    } catch {
      return false
    }
  }

  async close(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    await file?.close().catch(() => {})
  }
}

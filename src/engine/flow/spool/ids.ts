import type { EventBatch } from '../../../core/event/batch.js'
import { eventSum, eventSums } from '../../../core/event/event-id.js'

/**
 * The ids of the events in a record of a spool. If a source reads events again after a kill, the spool recognizes them
 * by these ids. Events without places have no ids. Numbers are little-endian. Layout: the time of writing (64-bit
 * float, wall clock), then the batches. A batch: its reading (8 bytes), its event count (4 bytes), then its events. An
 * event: its place minus the previous place (groups of 7 bits, the sign first), its checksum (4 bytes).
 */

const [TIME, READING, COUNT, SUM] = [8, 8, 4, 4]
/** Bytes of the largest difference between two places. Places have 48 bits. */
const LONGEST_STEP = 8

/** Maximum number of ids in memory. Each takes 12 bytes. */
const MOST_KNOWN = 500_000

export function encodeIds(request: readonly EventBatch[], at: number): Buffer {
  let most = TIME
  for (const { length } of request) most += READING + COUNT + length * (LONGEST_STEP + SUM)
  const bytes = Buffer.allocUnsafe(most)
  let to = bytes.writeDoubleLE(at, 0)
  for (const batch of request) {
    const { reading, length } = batch
    if (reading === '') continue
    to += bytes.write(reading, to, 'hex')
    to = bytes.writeUInt32LE(length, to)
    let before = 0
    const sums = eventSums(batch)
    for (let i = 0; i < length; i++) {
      const place = batch.place(i)
      to = writeStep(bytes, to, place - before)
      to = bytes.writeUInt32LE(sums[i]!, to)
      before = place
    }
  }
  return bytes.subarray(0, to)
}

export const writtenAt = (ids: Buffer): number => ids.readDoubleLE(0)

function writeStep(bytes: Buffer, to: number, step: number): number {
  let left = step < 0 ? -2 * step - 1 : 2 * step
  for (; left >= 0x80; left = Math.floor(left / 0x80)) bytes[to++] = (left % 0x80) | 0x80
  bytes[to++] = left
  return to
}

interface Known {
  readonly places: Float64Array
  readonly sums: Uint32Array
}

export class KnownIds {
  /** The ids of each reading, in the order of places. */
  readonly #known = new Map<string, Known>()

  /** Reads the ids of records. If there are too many ids, keeps those that were written last. */
  constructor(records: readonly Buffer[]) {
    const found = new Map<string, [place: number, sum: number][]>()
    let count = 0
    for (const ids of [...records].sort((a, b) => writtenAt(b) - writtenAt(a))) {
      if (count >= MOST_KNOWN) break
      count += read(ids, found)
    }
    for (const [reading, all] of found) {
      all.sort(([a], [b]) => a - b)
      const places = Float64Array.from(all, ([place]) => place)
      this.#known.set(reading, { places, sums: Uint32Array.from(all, ([, sum]) => sum) })
    }
  }

  get isEmpty(): boolean {
    return this.#known.size === 0
  }

  has(batch: EventBatch, i: number): boolean {
    const known = this.#known.get(batch.reading)
    if (!known) return false
    const { places, sums } = known
    const place = batch.place(i)
    let from = 0
    for (let to = places.length; from < to; ) {
      const middle = (from + to) >> 1
      if (places[middle]! < place) from = middle + 1
      else to = middle
    }
    // A processor may have made several versions of an event.
    for (; places[from] === place; from++) if (sums[from] === eventSum(batch, i)) return true
    return false
  }
}

/** Adds the ids of a record to `to`. Returns how many were added. */
function read(ids: Buffer, to: Map<string, [place: number, sum: number][]>): number {
  let count = 0
  for (let at = TIME; at < ids.length; ) {
    const reading = ids.toString('hex', at, at + READING)
    const events = ids.readUInt32LE(at + READING)
    at += READING + COUNT
    let all = to.get(reading)
    if (!all) to.set(reading, (all = []))
    for (let i = 0, place = 0; i < events; i++) {
      let step = 0
      let unit = 1
      for (; ids[at]! >= 0x80; unit *= 0x80) step += (ids[at++]! - 0x80) * unit
      step += ids[at++]! * unit
      place += step % 2 === 1 ? -(step + 1) / 2 : step / 2
      all.push([place, ids.readUInt32LE(at)])
      at += SUM
    }
    count += events
  }
  return count
}

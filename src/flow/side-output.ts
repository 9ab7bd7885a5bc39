import { PassThrough } from 'node:stream'

/** Batches that may wait between two components. The budget of unacknowledged bytes is what bounds memory. */
export const STREAM_DEPTH = 4

/** An output beside the main one. Whoever reads it sets `connected`; until then nothing is put in it. */
export class SideOutput extends PassThrough {
  connected = false
  /** How many were put in so far. */
  events = 0

  constructor(highWaterMark: number = STREAM_DEPTH) {
    super({ objectMode: true, highWaterMark })
  }
}

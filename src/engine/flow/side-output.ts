import { PassThrough } from 'node:stream'

/**
 * How many batches may wait at the end of a component, and how many at the beginning of the next component. A higher
 * number would only take more memory. If the number were 1, a component that waits or takes several batches at a time
 * would block the components before it.
 */
export const STREAM_DEPTH = 2

/** A side output. Readers set `connected`, taps set `tapped`. Until one is set, no events are written to the output. */
export class SideOutput extends PassThrough {
  connected = false
  tapped = false
  events = 0

  constructor() {
    super({ objectMode: true, highWaterMark: STREAM_DEPTH })
  }

  /** Whether a reader or a tap receives the output's events. */
  get isRead(): boolean {
    return (this.connected || this.tapped) && !this.destroyed
  }

  /** Resolves when the output has room or is destroyed. */
  drained(): Promise<void> {
    return new Promise(resolve => {
      const go = () => {
        this.off('drain', go)
        this.off('close', go)
        resolve()
      }
      this.on('drain', go)
      this.on('close', go)
    })
  }
}

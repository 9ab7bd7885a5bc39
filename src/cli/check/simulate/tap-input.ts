import type { IncomingMessage } from 'node:http'
import { JSON_OBJECTS } from '../../../core/codecs/json.js'
import { textOf } from '../../../daemon/admin/ask-socket.js'
import { LineSplitter } from '../../../lib/lines/line-splitter.js'
import { printableText } from '../../../lib/printable.js'
import { systemClock } from '../../../lib/time.js'
import { ask } from '../../inspect/daemon-socket.js'
import type { Frames } from './replay.js'

/** The id of the source that tapped events belong to. */
export const TAP_SOURCE = 'tap'
/** Most events per second that the daemon is asked for, of each output. */
export const TAPPED_PER_SECOND = 20_000
const MAX_LINE_BYTES = 64 * 1024 * 1024
/** A line with the number of events that were skipped. */
const SKIPPED = /^# (\d+) /

export interface Tapping {
  /** Path of the daemon's socket. */
  readonly socket: string
  /** The outputs that the throttle reads. */
  readonly outputs: readonly string[]
  /** Ends after so many milliseconds, or at the signal. */
  readonly forMs: number
  readonly signal: AbortSignal
  /** Called when all taps have begun. */
  readonly begun: () => void
}

/** Replays what leaves outputs of a running daemon. Resolves with the number of skipped events. */
export async function replayTaps(frames: Frames, { socket, outputs, forMs, signal, begun }: Tapping): Promise<number> {
  const responses = await Promise.all(
    outputs.map(async output => {
      const query = new URLSearchParams({ component: output, rate: String(TAPPED_PER_SECOND), for: String(forMs) })
      const response = await ask(socket, `/tap?${query}`, signal)
      if (response.statusCode === 200) return response
      throw new Error(printableText((await textOf(response)).trim()))
    }),
  )
  begun()
  const skipped = await Promise.all(responses.map(response => replayTap(frames, response, signal)))
  return skipped.reduce((sum, events) => sum + events, 0)
}

async function replayTap(frames: Frames, response: IncomingMessage, signal: AbortSignal): Promise<number> {
  const splitter = new LineSplitter(MAX_LINE_BYTES)
  let skipped = 0
  let pending = ''
  try {
    for await (const text of response.setEncoding('utf8')) {
      const lines = (pending + text).split('\n')
      pending = lines.pop()!
      const events: string[] = []
      for (const line of lines) {
        const remark = SKIPPED.exec(line)
        if (remark) skipped += Number(remark[1])
        else events.push(line)
      }
      if (events.length === 0) continue
      const frame = splitter.push(Buffer.from(`${events.join('\n')}\n`))!
      frames.enter({ source: TAP_SOURCE, host: '', codec: JSON_OBJECTS }, systemClock.wall())
      await frames.replay(frame)
      frame.release?.()
    }
  } catch (error) {
    if (!signal.aborted) throw new Error('the daemon has ended, or runs another configuration', { cause: error })
  }
  return skipped
}

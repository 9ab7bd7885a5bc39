import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { CountingReceiver } from './counting.js'
import type { Input } from './input.js'
import { RunningDaemon } from './running.js'

export interface Backlog {
  readonly bytes: number
  readonly lines: number
  /** How long the receiver was away. */
  readonly awaySeconds: number
  readonly drainedPerSecond: number
  /** The most while the receiver was away, and at all. */
  readonly awayRssBytes: number
  readonly peakRssBytes: number
}

const DRAIN_MS = 600_000

/** A receiver that refuses everything while `copies` times the input wait, and takes them afterwards. */
export async function measureBacklog(
  input: Input,
  work: string,
  copies: number,
  awaySeconds: number,
  progress: (text: string) => void,
): Promise<Backlog> {
  const folder = mkdtempSync(join(work, 'backlog-'))
  const logs = join(folder, 'logs')
  mkdirSync(logs)
  const receiver = await CountingReceiver.start(['--away'])
  let daemon: RunningDaemon | undefined
  try {
    for (let i = 0; i < copies; i++) {
      progress(`a backlog: copy ${i + 1} of ${copies}`)
      copyFileSync(input.path, join(logs, `${i}.ndjson`))
    }
    daemon = new RunningDaemon(
      folder,
      `sources: { logs: { type: file, include: [${JSON.stringify(join(logs, '*.ndjson'))}], decode: json } }
destinations:
  upstream: { type: http, inputs: [logs], url: "http://127.0.0.1:${receiver.port}/ingest", retry: { max: 1 Seconds } }
`,
    )
    progress('a backlog: nobody takes it')
    await wait(awaySeconds * 1000)
    const awayRssBytes = daemon.rssBytes().peak
    await receiver.back()
    progress('a backlog: it drains')
    const lines = copies * input.lines
    const began = performance.now()
    await daemon.until('sluice_component_sent_events_total', { component_id: 'upstream' }, lines, DRAIN_MS)
    const drainedPerSecond = Math.round(lines / ((performance.now() - began) / 1000))
    const counts = await receiver.counts()
    if (counts.lines !== lines || counts.bytes !== copies * input.bytes)
      throw new Error(`${counts.lines} lines arrived, not ${lines}`)
    const bytes = copies * input.bytes
    return { bytes, lines, awaySeconds, drainedPerSecond, awayRssBytes, peakRssBytes: daemon.rssBytes().peak }
  } finally {
    await daemon?.stop()
    receiver.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

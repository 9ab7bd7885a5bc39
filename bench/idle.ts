import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { RunningDaemon } from './running.js'
import { workFolder } from './work.js'

export interface Watching {
  readonly files: number
  /** Of these, how many get a line every second. */
  readonly active: number
  readonly seconds: number
  /** Of one core. */
  readonly cpuShare: number
  readonly rssBytes: number
  readonly openFiles: number
}

/**
 * What V8 compiles is the price of a start. A scan every two seconds makes its functions hot so slowly that the last of
 * them are compiled after three minutes.
 */
const SETTLE_MS = 240_000
const START_MS = 60_000
const TICKS_A_SECOND = 10

/** What the daemon costs while it watches many files, of which few or none are written to. */
export async function measureWatching(files: number, active: number, seconds: number): Promise<Watching> {
  const folder = workFolder(tmpdir(), 'idle')
  const logs = join(folder, 'logs')
  mkdirSync(logs)
  const path = (i: number) => join(logs, `app-${i}.log`)
  for (let i = 0; i < files; i++) writeFileSync(path(i), `the first line of file ${i}\n`)
  const config = `sources: { logs: { type: file, include: [${JSON.stringify(join(logs, '*.log'))}] } }
destinations: { nowhere: { type: blackhole, inputs: [logs] } }
`
  const daemon = new RunningDaemon(folder, config)
  try {
    const sent = (events: number) =>
      daemon.until('sluice_component_sent_events_total', { component_id: 'nowhere' }, events, START_MS)
    await sent(files)
    await wait(SETTLE_MS)
    const before = daemon.cpuSeconds()
    const began = performance.now()
    let written = 0
    for (let tick = 1; tick <= seconds * TICKS_A_SECOND; tick++) {
      for (; written < (active * tick) / TICKS_A_SECOND; written++)
        appendFileSync(
          path((written % active) * Math.floor(files / active)),
          `line ${written} of all that are written\n`,
        )
      await wait(Math.max(0, began + (tick * 1000) / TICKS_A_SECOND - performance.now()))
    }
    const cpuShare = (daemon.cpuSeconds() - before) / ((performance.now() - began) / 1000)
    await sent(files + written)
    const openFiles = (await daemon.scrape()).sum('sluice_files_open')
    return { files, active, seconds, cpuShare, rssBytes: daemon.rssBytes().now, openFiles }
  } finally {
    await daemon.stop()
  }
}

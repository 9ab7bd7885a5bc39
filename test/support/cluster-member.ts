import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type Daemon, startDaemon } from './daemon.js'

/** Daemons that share a limit. */

export const lines = (count: number, app = 'a') =>
  Array.from({ length: count }, (_, n) => `{"app":"${app}","n":${n}}\n`).join('')

export interface Settings {
  /** A new folder is made there. */
  readonly below: string
  readonly redis: string
  readonly limit?: number
  readonly more?: string
  readonly members?: string
  readonly window?: string
  /** Of its folder. */
  readonly name?: string
}

let count = 0
/** A daemon that throttles what it reads from standard input. */
export function member(
  t: Test,
  {
    below,
    redis,
    limit = 100,
    more = '',
    members = 'expected_members: 4',
    window = 'window: 1 Hours',
    name = `member-${count++}`,
  }: Settings,
): Promise<Daemon> {
  const folder = join(below, name)
  mkdirSync(folder)
  const config = `
sources: { in: { type: stdin, decode: json } }
processors:
  limited:
    type: throttle
    inputs: [in]
    limit: ${limit}
    ${window}
    key_field: .app
    scope: cluster
    ${members}
    redis: ${redis}
    ${more}
destinations: { out: { type: file, inputs: [limited], path: ${join(folder, 'out.log')} } }
`
  return startDaemon(t, folder, config)
}

export const decided = (daemon: Daemon, events: number) =>
  daemon.scrapedUntil(scrape => scrape.sum('sluice_throttle_events_total') >= events)

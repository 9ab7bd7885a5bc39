import { closeSync, openSync, renameSync, statSync, writeSync } from 'node:fs'
import { systemClock } from '../../lib/time.js'

/** Generates the load of the quickstart: four apps write JSON lines to one file, and one goes wild now and then. */

const TICK_MS = 100
/** The file is rotated at this size, which protects the disk from a forgotten quickstart. */
const MOST_BYTES = 4 * 1024 * 1024
/** `batch` writes at its wild rate for WILD_MS in each PERIOD_MS, for the first time after FIRST_MS. */
const PERIOD_MS = 15_000
const WILD_MS = 4000
const FIRST_MS = 3000

interface App {
  readonly name: string
  /** Lines per second. */
  readonly rate: number
  readonly wildRate?: number
  readonly messages: readonly string[]
}

export const APPS: readonly App[] = [
  { name: 'web', rate: 8, messages: ['GET / 200', 'GET /cart 200', 'POST /cart 201', 'GET /favicon.ico 404'] },
  { name: 'checkout', rate: 4, messages: ['order placed', 'payment accepted', 'payment declined'] },
  { name: 'mail', rate: 2, messages: ['receipt sent', 'newsletter sent', 'mailbox full'] },
  { name: 'batch', rate: 1, wildRate: 300, messages: ['row imported', 'row skipped: no such customer'] },
]

/** Number of lines that the app has written `ms` after its start. */
export function writtenBy(app: App, ms: number): number {
  if (app.wildRate === undefined) return Math.floor((ms * app.rate) / 1000)
  const since = ms - FIRST_MS
  const periods = Math.max(0, Math.floor(since / PERIOD_MS))
  const wildMs = since < 0 ? 0 : periods * WILD_MS + Math.min(WILD_MS, since - periods * PERIOD_MS)
  return Math.floor((wildMs * app.wildRate + (ms - wildMs) * app.rate) / 1000)
}

/** Writes the logs of the apps to `path` until the returned function is called. */
export function startApps(path: string, failed: (error: Error) => void): () => void {
  const began = systemClock.now()
  const written = APPS.map(() => 0)
  let file = openSync(path, 'a', 0o600)
  const write = () => {
    const now = systemClock.now() - began
    const lines = APPS.flatMap((app, i) => {
      const from = written[i]!
      written[i] = writtenBy(app, now)
      return Array.from({ length: written[i] - from }, (_, n) => line(app, from + n))
    })
    if (lines.length > 0) writeSync(file, lines.join(''))
    if (statSync(path).size < MOST_BYTES) return
    renameSync(path, `${path}.1`)
    closeSync(file)
    file = openSync(path, 'a', 0o600)
  }
  const timer = setInterval(() => {
    try {
      write()
    } catch (error) {
      clearInterval(timer)
      failed(error as Error)
    }
  }, TICK_MS)
  return () => {
    clearInterval(timer)
    closeSync(file)
  }
}

function line({ name, messages }: App, n: number): string {
  const timestamp = new Date(systemClock.wall()).toISOString()
  const message = messages[n % messages.length]
  return `${JSON.stringify({ timestamp, app: name, level: message!.includes(':') ? 'warn' : 'info', message, n })}\n`
}

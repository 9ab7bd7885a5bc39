import { once } from 'node:events'
import { appendFileSync, copyFileSync, mkdirSync, readFileSync, renameSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import { built } from '../measure.js'
import { RunningDaemon } from '../running.js'

/** Many files are rotated at once, as logrotate does at midnight. */

export interface Rotations {
  readonly files: number
  /** Files in a folder. */
  readonly inFolder: number
  readonly maxOpenFiles?: number
  /** Whether files are copied and truncated. Otherwise, they are renamed. */
  readonly copies?: boolean
}

/** What one rotation of all files cost, until all their lines were there. */
export interface Rotated {
  readonly cpuSeconds: number
  readonly seconds: number
  /** The longest time for which the event loop was held, in milliseconds of CPU time. */
  readonly heldMs: number
  /** The longest time to an answer of `/healthz`, in milliseconds. */
  readonly answerMs: number
}

const ROTATIONS = 2
const POLL_MS = 20
const LONGEST_MS = 600_000
/** So many files are renamed and written, then this process looks at its requests. */
const AT_ONCE = 50

/** Rotates all files two times. Fails unless each line arrives exactly once. */
export async function measureRotations(
  folder: string,
  { files, inFolder, maxOpenFiles, copies = false }: Rotations,
): Promise<{ rotations: Rotated[]; stopSeconds: number }> {
  const logs = join(folder, 'logs')
  const pathOf = (i: number) => join(logs, `${Math.floor(i / inFolder)}`, `app-${i}.log`)
  const out = join(folder, 'out.log')
  for (let i = 0; i < files; i += inFolder) mkdirSync(join(pathOf(i), '..'), { recursive: true })
  const written: string[] = []
  const write = (i: number, round: number) => {
    const line = `${new Date().toISOString()} file ${i} has been rotated ${round} times, and this is its next line`
    written.push(line)
    appendFileSync(pathOf(i), `${line}\n`)
  }
  for (let i = 0; i < files; i++) write(i, 0)
  const open = maxOpenFiles === undefined ? '' : `, max_open_files: ${maxOpenFiles}`
  const include = JSON.stringify(join(logs, '*', '*.log'))
  const daemon = new RunningDaemon(
    folder,
    `sources: { logs: { type: file, include: [${include}]${open} } }
destinations: { out: { type: file, inputs: [logs], path: ${JSON.stringify(out)}, encoding: raw } }
`,
    { imports: [built('./loop-probe.js')] },
  )
  try {
    const health = new URL('/healthz', await daemon.url())
    const allThere = () =>
      daemon.until('sluice_component_sent_events_total', { component_id: 'out' }, written.length, LONGEST_MS)
    await allThere()
    const rotations: Rotated[] = []
    for (let round = 1; round <= ROTATIONS; round++) {
      // A sweep may still be going on.
      await wait(3000)
      rotations.push(
        await measure(daemon, health, async () => {
          for (let i = 0; i < files; i++) {
            for (let n = round; n > 1; n--) renameSync(nameOf(pathOf(i), n - 1), nameOf(pathOf(i), n))
            if (copies) copyFileSync(pathOf(i), nameOf(pathOf(i), 1))
            if (copies) truncateSync(pathOf(i))
            else renameSync(pathOf(i), nameOf(pathOf(i), 1))
            if (i % AT_ONCE === 0) await nextTurn()
          }
          for (let i = 0; i < files; i++) {
            write(i, round)
            if (i % AT_ONCE === 0) await nextTurn()
          }
          await allThere()
        }),
      )
    }
    const began = performance.now()
    const code = await daemon.stop()
    const stopSeconds = (performance.now() - began) / 1000
    if (code !== 0) throw new Error(`the daemon ended with ${code}:\n${daemon.log}`)
    const lines = readFileSync(out, 'utf8').split('\n').slice(0, -1)
    if (lines.sort().join('\n') !== written.sort().join('\n'))
      throw new Error(`${written.length} lines were written, and ${lines.length} other lines arrived`)
    return { rotations, stopSeconds }
  } finally {
    await daemon.stop('SIGKILL')
  }
}

function nameOf(path: string, age: number): string {
  return age === 0 ? path : `${path}.${age}`
}

async function measure(daemon: RunningDaemon, health: URL, rotate: () => Promise<void>): Promise<Rotated> {
  daemon.child.send('watch')
  let isOver = false
  let answerMs = 0
  const asks = (async () => {
    for (; !isOver; await wait(POLL_MS)) {
      const asked = performance.now()
      await (await fetch(health)).text()
      answerMs = Math.max(answerMs, performance.now() - asked)
    }
  })()
  const began = performance.now()
  const before = daemon.cpuSeconds()
  await rotate()
  const seconds = (performance.now() - began) / 1000
  const cpuSeconds = daemon.cpuSeconds() - before
  isOver = true
  await asks
  daemon.child.send('tell')
  const [held] = (await once(daemon.child, 'message')) as [{ core: number }]
  return { cpuSeconds, seconds, heldMs: held.core, answerMs }
}

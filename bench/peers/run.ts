import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { CountingReceiver } from '../counting.js'
import { built, cpuSecondsOfTree, ENV, freePort, peakRssOfTree } from '../measure.js'
import { Broker } from './broker.js'
import { fillIn } from './conf.js'
import { type Outcome, outcomeOf, type Receiver } from './outcome.js'
import type { Command, JobId, Peer, Task } from './peer.js'
import type { Survey } from './survey.js'
import { warmUp } from './warm-up.js'

/** What a program used from its start until the last event was delivered. */
export interface Figures {
  readonly seconds: number
  /** User and system time of the process and its descendants. */
  readonly cpuSeconds: number
  readonly rssBytes: number
}

const POLL_MS = 5
/** Without progress for so long, a run has failed. */
const STALL_MS = 60_000
const STOP_MS = 20_000
const KEPT_LOG = 4000

/** Runs a program on a job until everything is delivered; throws when it stalls, or when what it delivered is wrong. */
export async function runJob(peer: Peer, job: JobId, input: Survey, parent: string): Promise<Figures> {
  const task = peer.tasks[job]!
  const folder = mkdtempSync(join(parent, `${job}-${peer.id}-`))
  const out = join(folder, 'out.log')
  const receiver = await receiverOf(job, task, folder)
  let sender: ChildProcess | undefined
  try {
    const port = receiver?.port ?? (await freePort())
    // Some programs tell the language by the name.
    const config = join(folder, task.config ?? 'no-configuration')
    if (task.config !== undefined) fillIn(task.config, config, { folder, input: input.path, out, port })
    const command = peer.command({ job, task, folder, config, input: input.path, out, port })
    const outcome = outcomeOf(job, task, input, out, receiver)
    // What was written before is on the disk now, and costs this run nothing.
    spawnSync('sync')
    warmUp(input, folder)
    if (job === 'J4') {
      const args = [built('./peers/sender.js'), input.path, String(port)]
      sender = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
    }
    const figures = await measureUntil(outcome, command, folder)
    await outcome.check(figures.seconds)
    return figures
  } finally {
    await receiver?.close()
    sender?.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
}

/** What a job sends to over the network. */
async function receiverOf(job: JobId, { output, reply = '' }: Task, folder: string): Promise<Receiver | undefined> {
  if (job === 'J9') return Broker.start(folder)
  if (job === 'J1' || job === 'J2' || job === 'J4') return undefined
  const records = output === 'otlp' || output === 'loki' ? ['--records', output] : []
  return CountingReceiver.start([...records, ...(job === 'J7' ? ['--bulk'] : []), '--reply', reply])
}

async function measureUntil(outcome: Outcome, { file, args, env }: Command, cwd: string): Promise<Figures> {
  const began = performance.now()
  const child = spawn(file, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], env: { ...ENV, ...env } })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  let log = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', text => (log = (log + text).slice(-KEPT_LOG)))
  let failure: Error | undefined
  child.once('error', error => (failure = error))
  const ended = new Promise(resolve => child.once('close', resolve))
  try {
    let moved = began
    let before = 0
    for (;;) {
      const progress = await outcome.progress()
      const now = performance.now()
      if (outcome.complete()) {
        const pid = child.pid!
        const figures = { cpuSeconds: cpuSecondsOfTree(pid), rssBytes: peakRssOfTree(pid) }
        return { seconds: (now - began) / 1000, ...figures }
      }
      if (progress !== before) moved = now
      before = progress
      const exit = child.exitCode ?? child.signalCode
      if (failure || exit !== null) throw new Error(`it ended early: ${failure?.message ?? exit}\n${log}`)
      if (now - moved > STALL_MS) throw new Error(`it made no progress for ${STALL_MS / 1000} s\n${log}`)
      await wait(POLL_MS)
    }
  } finally {
    child.kill('SIGTERM')
    const late = setTimeout(kill, STOP_MS)
    if (!failure) await ended
    clearTimeout(late)
    process.removeListener('exit', kill)
  }
}

import { execFileSync, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { programOptions, runProgram } from '../test/support/program-options.js'
import { until } from '../test/support/until.js'
import { SLUICE } from './measure.js'
import { workFolder } from './work.js'

/** `npm run bench syncs`: how long callers of the service wait while its store is written and its disk is slow. */

const USAGE = `Usage: npm run bench syncs -- [options]

  --delays LIST   milliseconds that each sync of the store takes longer, by strace (default: 0,100)
  --changes N     changes per second (default: 20)
  --seconds N     how long, for each delay (default: 20)
`
const { options } = programOptions({ delays: '0,100', changes: 20, seconds: 20 }, USAGE)
const CALLS_PER_SECOND = 20

/** The service in a new folder, whose store has a slow disk. */
async function serve(folder: string, delayMs: number) {
  const config = join(folder, 'service.yaml')
  const state = join(folder, 'state')
  writeFileSync(config, `metrics: false\nservice: { listen: 127.0.0.1:0, data_dir: ${state} }\n`)
  const files = ['store.sqlite', 'store.sqlite-wal'].flatMap(name => ['-P', join(state, 'store', name)])
  const inject = `inject=fsync,fdatasync:delay_enter=${delayMs * 1000}`
  const slow = [
    'strace',
    '-f',
    '--seccomp-bpf',
    '-qq',
    '-o',
    '/dev/null',
    ...files,
    '-e',
    'fsync,fdatasync',
    '-e',
    inject,
  ]
  const [program, ...args] = [...(delayMs > 0 ? slow : []), process.execPath, SLUICE, 'serve', '--config', config]
  const child = spawn(program!, args, { stdio: ['ignore', 'ignore', 'pipe'], detached: true })
  const end = () => process.kill(-child.pid!, 'SIGKILL')
  process.once('exit', end)
  let log = ''
  child.stderr.on('data', part => (log += part))
  const url = await until(() => /"url":"(http[^"]+)\/v3"/.exec(log)?.[1], { show: () => log })
  const made = JSON.parse(
    execFileSync(process.execPath, [SLUICE, 'admin', 'init', '--config', config, '--json'], { encoding: 'utf8' }),
  )
  return {
    url,
    key: made.manager.key as string,
    end() {
      process.removeListener('exit', end)
      end()
    },
  }
}

async function measure(delayMs: number): Promise<void> {
  const { url, key, end } = await serve(workFolder(tmpdir(), 'syncs'), delayMs)
  const call = async (method: string, path: string, body?: object, wanted = 200) => {
    const headers = { authorization: `Token ${key}`, 'content-type': 'application/json' }
    const response = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    const text = await response.text()
    if (response.status !== wanted) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return text && JSON.parse(text).data
  }
  // What is sent is safe, and answered, when it is in the disk buffer.
  const config = { destinations: { out: { type: 'blackhole', inputs: ['ingest'], buffer: { type: 'disk' } } } }
  const { id } = await call('POST', '/v3/pipeline', { title: 'x', config }, 201)
  await call('POST', `/v3/pipeline/${id}/publish`, {})
  const calls = {
    change: [options.changes, () => call('PUT', '/v3/secret/same', { value: `${Math.random()}` })],
    token: [CALLS_PER_SECOND, () => call('GET', '/v3/auth/token')],
    ingest: [CALLS_PER_SECOND, () => call('POST', `/v3/ingest/${id}`, [{ message: 'x' }], 202)],
  } as const
  await calls.ingest[1]()
  /** From the time at which each call was due. */
  const times = async ([rate, work]: readonly [number, () => Promise<unknown>]) => {
    const began = performance.now()
    const taken = Array.from({ length: rate * options.seconds }, async (_, i) => {
      const due = began + (i * 1000) / rate
      await wait(due - performance.now())
      await work()
      return performance.now() - due
    })
    return (await Promise.all(taken)).sort((a, b) => a - b)
  }
  const names = Object.keys(calls) as (keyof typeof calls)[]
  const measured = await Promise.all(names.map(name => times(calls[name])))
  for (const [i, sorted] of measured.entries()) {
    const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)]!.toFixed(1)
    process.stdout.write(`${delayMs} ms a sync: ${names[i]} p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms\n`)
  }
  end()
}

await runProgram('bench syncs', async () => {
  for (const delay of options.delays.split(',')) await measure(Number(delay))
})

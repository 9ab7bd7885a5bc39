import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { InitResult } from '../../api/domain/documents.js'
import { Client } from '../../client/client.js'
import { callControl } from '../../serve/control.js'

/** The service of the quickstart: a process beside the daemon, with an account, a key and a pipeline. */
export interface OwnService {
  readonly url: string
  readonly account: string
  /** File with the key of the service account, readable by its owner only. */
  readonly keyFile: string
  /** The ingest URL for the daemon. */
  readonly ingest: string
  /** The file that the published pipeline writes to. */
  readonly received: string
  stop(): Promise<void>
}

const READY_MS = 30_000
const STOP_MS = 10_000
/** Events per second of each app that the published pipeline passes; the daemon sends fewer. */
const LIMIT = 100

interface Made {
  readonly account: string
  readonly pipeline: string
}

/** Starts the service on `port` with its state in `folder`. The first time, creates everything that a daemon needs. */
export async function startOwnService(folder: string, port: number, env: NodeJS.ProcessEnv): Promise<OwnService> {
  const dataDir = join(folder, 'service')
  const config = join(folder, 'service.yaml')
  const url = `http://127.0.0.1:${port}`
  const received = join(folder, 'received.ndjson')
  const [quotedDir, quotedFile] = [dataDir, received].map(path => JSON.stringify(path))
  writeFileSync(
    config,
    `# sluice quickstart replaces this file at each start.\nmetrics: false\nservice:\n  listen: 127.0.0.1:${port}\n  data_dir: ${quotedDir}\n  ingest: { allow_files: [${quotedFile}] }\n`,
  )
  const child = await startServing(config, env)
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const kill = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    const gone = once(child, 'exit')
    child.kill('SIGTERM')
    await gone
    clearTimeout(kill)
  }
  try {
    const keyFile = join(folder, 'access-key')
    const notes = join(folder, 'service.json')
    if (!existsSync(notes)) writeFileSync(notes, JSON.stringify(await furnish(dataDir, url, keyFile, received)))
    const { account, pipeline } = JSON.parse(readFileSync(notes, 'utf8')) as Made
    return { url, account, keyFile, received, ingest: `${url}/v3/ingest/${pipeline}`, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Starts a process that does not get the terminal's Ctrl-C: it is needed until the daemon has sent everything. */
async function startServing(config: string, env: NodeJS.ProcessEnv): Promise<ChildProcess> {
  const main = fileURLToPath(new URL('../main.js', import.meta.url))
  const child = fork(main, ['serve', '--config', config], {
    env,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  let log = ''
  const ready = new Promise<boolean>(resolve => {
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-10_000)
      if (log.includes('"the service is ready"')) resolve(true)
    })
    child.once('exit', () => resolve(false))
    setTimeout(() => resolve(false), READY_MS).unref()
  })
  if (await ready) return child
  child.kill('SIGKILL')
  throw new Error(`the service did not start:\n${log.trimEnd()}`)
}

/** Creates the account, the keys and the pipeline as an operator would. */
async function furnish(dataDir: string, url: string, keyFile: string, received: string): Promise<Made> {
  const made = (await callControl(dataDir, 'init', {}))!.body as InitResult
  const keep = (path: string, key: string) => writeFileSync(path, `${key}\n`, { mode: 0o600 })
  keep(keyFile, made.service_account.key)
  keep(`${keyFile}-of-manager`, made.manager.key)
  keep(`${keyFile}-of-enterprise`, made.enterprise_service_account.key)
  await new Client({ url, key: made.manager.key }).accounts.setFeature('throttle', true)
  const { pipelines } = new Client({ url, key: made.service_account.key })
  const { id } = await pipelines.create({
    title: 'quickstart',
    config: {
      processors: {
        limit_apps: { type: 'throttle', inputs: ['ingest'], limit: LIMIT, window: '1 Seconds', key_field: '.app' },
      },
      destinations: { received: { type: 'file', inputs: ['limit_apps'], path: received, encoding: 'json' } },
    },
  })
  await pipelines.publish(id)
  return { account: made.account.id, pipeline: id }
}

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from '../../daemon/client/client.js'
import type { InitResult } from '../../daemon/client/documents.js'
import type { Io } from '../../daemon/process/command-line.js'
import { after } from '../../lib/time.js'
import { loadService } from '../wings.js'
import type { Receiver } from './plan.js'

const READY_MS = 30_000
const STOP_MS = 10_000

/**
 * Starts the service of the quickstart: a process beside the daemon, with a new account, a key and a pipeline. Its state
 * is in `folder`, and the system chooses its ports.
 */
export async function startOwnService(folder: string, io: Io): Promise<Required<Omit<Receiver, 'caFile'>>> {
  // Not the folder of an earlier run, because the service of that run may still be ending.
  const dataDir = join(folder, `service-${process.pid}`)
  const config = join(folder, 'service.yaml')
  const received = join(folder, 'received.ndjson')
  const [quotedDir, quotedFile] = [dataDir, received].map(path => JSON.stringify(path).replaceAll('${', () => '$${'))
  writeFileSync(
    config,
    `# sluice quickstart replaces this file at each start.
metrics: { listen: 127.0.0.1:0 }
service:
  listen: 127.0.0.1:0
  data_dir: ${quotedDir}
  ingest: { allow_files: [${quotedFile}] }
`,
  )
  const [{ child, url, metrics }, { initialize }] = await Promise.all([
    startServing(config, io.env),
    loadService().then(({ loadAdmin }) => loadAdmin()),
  ])
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const cancel = after(STOP_MS, () => child.kill('SIGKILL'))
    const gone = once(child, 'exit')
    child.kill('SIGTERM')
    await gone
    cancel()
  }
  try {
    const keyFile = join(folder, 'access-key')
    const pipeline = await furnish(await initialize(config, io), url, keyFile, received)
    return { url, pipeline, keyFile, received, metrics, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/**
 * Starts the service in a process that does not get the terminal's Ctrl-C, because the daemon needs the service until
 * everything is sent.
 */
async function startServing(config: string, env: NodeJS.ProcessEnv) {
  const main = fileURLToPath(new URL('../main.js', import.meta.url))
  const child = fork(main, ['serve', '--config', config], {
    // At this level, the log names the address at which the process listens.
    env: { ...env, SLUICE_LOG_LEVEL: 'info' },
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  let log = ''
  const urlIn = (message: string) =>
    log
      .split('\n')
      .find(line => line.includes(`"msg":"${message}"`))
      ?.match(/"url":"([^"]+)"/)?.[1]
  let cancel = () => {}
  const ready = await new Promise<boolean>(resolve => {
    cancel = after(READY_MS, () => resolve(false))
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-10_000)
      if (urlIn('the service is ready')) resolve(true)
    })
    child.once('exit', () => resolve(false))
    child.once('error', () => resolve(false))
  })
  cancel()
  const [url, metrics] = [urlIn('the service is ready'), urlIn('metrics are served')]
  if (ready && url && metrics) return { child, url: url.replace(/\/v3$/, ''), metrics }
  child.kill('SIGKILL')
  throw new Error(`the service did not start:\n${log.trimEnd()}`)
}

/** Saves the keys, and creates the pipeline as an operator would. Resolves with the pipeline's id. */
async function furnish(made: InitResult, url: string, keyFile: string, received: string): Promise<string> {
  const keep = (path: string, key: string) => writeFileSync(path, `${key}\n`, { mode: 0o600 })
  keep(keyFile, made.service_account.key)
  keep(`${keyFile}-of-manager`, made.manager.key)
  keep(`${keyFile}-of-enterprise`, made.enterprise_service_account.key)
  const client = new Client({ url, key: made.service_account.key })
  const { id } = await client.pipelines.create({
    title: 'quickstart',
    config: { destinations: { received: { type: 'file', inputs: ['ingest'], path: received, encoding: 'json' } } },
  })
  await client.pipelines.publish(id)
  // The service starts a pipeline at its first request. So an empty request is sent, and the first events do not wait.
  await client.ingest(id, '').catch(() => {})
  return id
}

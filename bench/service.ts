import { execFileSync, spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SLUICE } from './measure.js'
import { workFolder } from './work.js'

/** The real service as a process of its own, for as long as it is measured. */
export interface Served {
  readonly url: string
  /** The address of its metrics. */
  readonly metrics: string
  readonly pid: number
  readonly work: string
  readonly made: { readonly manager: { readonly key: string }; readonly service_account: { readonly key: string } }
  /** A call with JSON; resolves with `data` of the answer. */
  call(method: string, path: string, key: string, json?: unknown): Promise<{ id: string; key?: string }>
  stop(): void
}

interface Starting {
  /** Another node of the service, which runs already. */
  readonly first?: Served
  readonly command?: string | undefined
}

/** `options`: further ones of the service. */
export async function startService(
  folder: string,
  options: object = {},
  { first, command = SLUICE }: Starting = {},
): Promise<Served> {
  const work = workFolder(folder, 'service')
  const config = join(work, 'service.yaml')
  const data_dir = join(work, 'state')
  const service = { listen: '127.0.0.1:0', data_dir, limits: { requests: 1_000_000_000 }, ...options }
  writeFileSync(config, JSON.stringify({ metrics: { listen: '127.0.0.1:0' }, service }))
  if (first) {
    mkdirSync(data_dir, { mode: 0o700 })
    copyFileSync(join(first.work, 'state/secret'), join(data_dir, 'secret'))
  }
  const init = () =>
    execFileSync(process.execPath, [command, 'admin', 'init', '--config', config, '--json'], { encoding: 'utf8' })
  const made = first?.made ?? (JSON.parse(init()) as Served['made'])
  // As in systemd/sluice-api.service.
  const env = { ...process.env, NODE_OPTIONS: '--max-semi-space-size=1' }
  const args = [command, 'serve', '--config', config]
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  let log = ''
  child.stderr.setEncoding('utf8').on('data', text => (log += text))
  for (let i = 0; i < 500 && !/\/v3"/.test(log); i++) await new Promise(resolve => setTimeout(resolve, 20))
  const url = /"url":"([^"]+)\/v3"/.exec(log)?.[1]
  const metrics = /"url":"([^"]+\/metrics)"/.exec(log)?.[1]
  if (!url || !metrics) throw new Error(`the service does not start:\n${log}`)
  return {
    url,
    metrics,
    pid: child.pid!,
    work,
    made,
    async call(method, path, key, json) {
      const headers = { authorization: `Token ${key}`, 'content-type': 'application/json' }
      const body = json === undefined ? {} : { body: JSON.stringify(json) }
      const response = await fetch(url + path, { method, headers, ...body })
      if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`)
      return ((await response.json()) as { data: { id: string; key?: string } }).data
    },
    stop() {
      process.removeListener('exit', kill)
      kill()
    },
  }
}

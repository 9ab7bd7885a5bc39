import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { HOST, ownPort } from './address.js'
import { bound } from './bound.js'
import { until } from './until.js'

export interface Sample {
  readonly metric: Readonly<Record<string, string>>
  readonly value: readonly [number, string]
}

export interface Rule {
  readonly name: string
  readonly type: 'alerting' | 'recording'
  readonly health: string
  readonly lastError?: string
  readonly query: string
  readonly state?: string
}

/** A real Prometheus that scrapes. */
export interface Prometheus {
  /** What an expression gives now; throws what Prometheus has against it. */
  query(expr: string): Promise<readonly Sample[]>
  /** Exemplars of the last minute. */
  exemplars(
    expr: string,
  ): Promise<readonly { readonly labels: Readonly<Record<string, string>>; readonly value: string }[]>
  rules(): Promise<readonly Rule[]>
  readonly log: string
}

/** Starts it in `folder`; jobs by their name with the addresses they scrape. It does not outlive the test. */
export async function startPrometheus(
  t: Test,
  program: string,
  folder: string,
  jobs: Readonly<Record<string, string>>,
  rules: string,
): Promise<Prometheus> {
  const scrapes = Object.entries(jobs).map(([job_name, address]) => ({
    job_name,
    static_configs: [{ targets: [address] }],
  }))
  // YAML takes JSON.
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: [rules],
    scrape_configs: scrapes,
  }
  writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config))
  const url = `http://${HOST}:${await ownPort()}`
  const options = {
    'config.file': join(folder, 'prometheus.yml'),
    'storage.tsdb.path': join(folder, 'prometheus'),
    'web.listen-address': url.slice('http://'.length),
    'enable-feature': 'exemplar-storage',
  }
  const child = spawn(
    ...bound(
      program,
      Object.entries(options).map(([name, value]) => `--${name}=${value}`),
    ),
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  let log = ''
  child.stderr.setEncoding('utf8').on('data', text => (log += text))
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const ended = once(child, 'close').then(() => process.removeListener('exit', kill))
  t.teardown(async () => {
    kill()
    await ended
  })
  const get = async <T>(path: string, parameters: Record<string, string> = {}): Promise<T> => {
    const answer = await fetch(`${url}/api/v1/${path}`, { method: 'POST', body: new URLSearchParams(parameters) })
    const { data, error } = (await answer.json()) as { data: T; error?: string }
    if (error !== undefined) throw new Error(`${error}: ${parameters.query ?? path}`)
    return data
  }
  const list = async <T>(path: string): Promise<T> =>
    ((await (await fetch(`${url}/api/v1/${path}`)).json()) as { data: T }).data
  const isReady = async () => {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`Prometheus ended:\n${log}`)
    return await fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    )
  }
  await until('Prometheus to be ready', isReady, { show: () => log })
  return {
    get log() {
      return log
    },
    query: async query => (await get<{ result: readonly Sample[] }>('query', { query })).result,
    async exemplars(query) {
      const now = Date.now() / 1000
      const range = { start: String(now - 60), end: String(now + 60) }
      const found = await get<{ exemplars: { labels: Record<string, string>; value: string }[] }[]>('query_exemplars', {
        query,
        ...range,
      })
      return found.flatMap(({ exemplars }) => exemplars)
    },
    rules: async () => (await list<{ groups: { rules: Rule[] }[] }>('rules')).groups.flatMap(group => group.rules),
  }
}

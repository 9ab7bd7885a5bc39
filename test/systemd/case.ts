import type { Test } from 'tap'
import { type Receiver, startReceiver } from '../support/receiver.js'
import { until } from '../support/until.js'
import type { Machine } from './machine.js'

/** One thing that must hold under a real systemd. */
export interface Case {
  readonly title: string
  run(t: Test, machine: Machine): Promise<void>
}

export const KEY = 'Token right'

export interface Setup {
  readonly receiver: Receiver
  /** Appends lines `from`..`to` to the log that is read. */
  append(from: number, to: number, file?: string): Promise<void>
}

/** Lines as `append` writes them. */
export function linesFrom(from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, i) => JSON.stringify({ n: from + i }))
}

/** What `configOf` may have besides. */
export interface Parts {
  readonly head?: string
  readonly processor?: string
  readonly options?: string
}

/** A configuration from the log to `url`. */
export function configOf(url: string, { head = '', processor, options = '' }: Parts = {}): string {
  // Other programs of this machine may have the usual port.
  return `metrics: { listen: 127.0.0.1:0 }
${head}sources:
  app: { type: file, include: [/var/log/app/*.log], decode: json }
${processor ? `processors:\n  busy: { ${processor}, inputs: [app] }\n` : ''}destinations:
  out:
    type: http
    inputs: [${processor ? 'busy' : 'app'}]
    url: ${url}
    auth: { type: token, credential: access-key }
    batch: { max_wait: 100ms }
${options}`
}

/** A receiver, a key, a log that adm may read, and the configuration that brings the one to the other. */
export async function setUp(t: Test, machine: Machine, parts: Parts & { key?: string } = {}): Promise<Setup> {
  const receiver = await startReceiver({ authorization: KEY })
  t.teardown(() => receiver.close())
  machine.write({ '/etc/sluice/sluice.yaml': configOf(receiver.url(), parts) })
  await machine.do(
    `install -m 0600 /dev/null /etc/sluice/access-key; printf ${parts.key ?? 'right'} > /etc/sluice/access-key`,
  )
  await machine.do('install -m 0640 -g adm /dev/null /var/log/app/app.log')
  return {
    receiver,
    async append(from, to, file = 'app.log') {
      await machine.tree.sh(`cat >> /var/log/app/${file}`, { input: `${linesFrom(from, to).join('\n')}\n` })
    },
  }
}

/** Waits until the receiver has so many different lines. */
export async function arrived({ receiver }: Setup, count: number): Promise<void> {
  const seen = () => new Set(receiver.lines()).size
  await until(`${count} lines`, () => seen() >= count, { show: seen })
}

/** What is, and stays so for a while. */
export async function stays(ms: number, test: () => Promise<boolean>): Promise<boolean> {
  for (const end = performance.now() + ms; performance.now() < end; ) {
    if (!(await test())) return false
    await new Promise(resolve => setTimeout(resolve, 200))
  }
  return true
}

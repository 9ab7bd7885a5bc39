import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { InitResult } from '../../src/daemon/client/documents.js'
import { command } from './cli.js'
import { type Running, sluice } from './sluice.js'

/** The service as its user runs it: `sluice serve`. */

export const SECRET = /st[sea]_[0-9a-f]{40}/

interface Served {
  readonly running: Running
  readonly url: string
  readonly config: string
  readonly state: string
}

export async function serve(
  t: Test,
  folder: string,
  more = '',
  head = 'metrics: { listen: 127.0.0.1:0 }',
): Promise<Served> {
  const config = join(folder, 'service.yaml')
  const state = join(folder, 'state')
  writeFileSync(config, `${head}\nservice:\n  listen: 127.0.0.1:0\n  data_dir: ${state}\n${more}`)
  const running = sluice(['serve', '--config', config], { cwd: folder })
  t.teardown(async () => {
    running.child.kill('SIGKILL')
    await running.exit
  })
  const url = await running.until(() => /"url":"(https?:[^"]+)\/v3"/.exec(running.stderr)?.[1])
  return { running, url, config, state }
}

export async function stop(t: Test, running: Running): Promise<void> {
  running.child.kill('SIGTERM')
  t.equal(await running.exit, 0)
  t.match(running.stderr, /"msg":"ended"/)
  t.notMatch(running.stderr, SECRET, 'no key in the log')
  for (const line of running.stderr.trim().split('\n')) t.doesNotThrow(() => JSON.parse(line), 'every line is JSON')
}

export const init = async (t: Test, config: string): Promise<InitResult> => {
  const { code, stdout, stderr } = await command(['admin', 'init', '--config', config, '--json'])
  t.equal(code, 0, stderr)
  return JSON.parse(stdout)
}

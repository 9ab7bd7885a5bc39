import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SLUICE } from './measure.js'

export interface Idle {
  readonly files: number
  readonly seconds: number
  /** Of one core. */
  readonly cpuShare: number
  readonly rssBytes: number
}

const SETTLE_MS = 3000
const START_MS = 30_000

/** What the daemon costs while it watches files that nobody writes to. */
export async function measureIdle({ files, seconds }: { files: number; seconds: number }): Promise<Idle> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-idle-'))
  const logs = join(folder, 'logs')
  mkdirSync(logs)
  for (let i = 0; i < files; i++) writeFileSync(join(logs, `app-${i}.log`), `the first line of file ${i}\n`)
  const config = join(folder, 'sluice.yaml')
  const text = `data_dir: ${JSON.stringify(join(folder, 'state'))}
metrics: { listen: 127.0.0.1:0 }
sources: { logs: { type: file, include: [${JSON.stringify(join(logs, '*.log'))}] } }
destinations: { nowhere: { type: blackhole, inputs: [logs] } }
`
  writeFileSync(config, text)
  const child = spawn(process.execPath, [SLUICE, 'run', '--config', config], { stdio: ['ignore', 'ignore', 'pipe'] })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const gone = new Promise(resolve => child.on('close', resolve))
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', text => (stderr += text))
  try {
    await allRead(files, () => /"url":"([^"]+)"/.exec(stderr)?.[1])
    await wait(SETTLE_MS)
    const before = cpuSeconds(child.pid!)
    await wait(seconds * 1000)
    const cpuShare = (cpuSeconds(child.pid!) - before) / seconds
    return { files, seconds, cpuShare, rssBytes: rssBytes(child.pid!) }
  } catch (error) {
    throw new Error(`the idle bench failed; the daemon said:\n${stderr}`, { cause: error })
  } finally {
    child.kill('SIGTERM')
    await gone
    process.removeListener('exit', kill)
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Resolves when the daemon has delivered a line of every file. */
async function allRead(files: number, url: () => string | undefined): Promise<void> {
  for (const end = performance.now() + START_MS; performance.now() < end; await wait(200)) {
    const address = url()
    if (!address) continue
    const scrape = await (await fetch(address)).text()
    const delivered = /^sluice_component_sent_events_total\{component_id="nowhere"[^}]*\} (\d+)$/m.exec(scrape)?.[1]
    if (Number(delivered) === files) return
  }
  throw new Error(`not all files were read within ${START_MS / 1000} s`)
}

function wait(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}

/** In steps of the kernel's clock tick, 10 ms. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

function rssBytes(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1024
}

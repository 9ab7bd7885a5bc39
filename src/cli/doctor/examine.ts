import { once } from 'node:events'
import { accessSync, constants, existsSync, statfsSync, watch } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { components } from '../../components/list.js'
import { errorCode } from '../../core/errors.js'
import { componentsOf } from '../../engine/config/inputs.js'
import type { Config } from '../../engine/config/load.js'
import { DeadLetterStock } from '../../engine/run/dead-letter/stock.js'
import { pathOf } from '../../engine/run/state/inventory.js'
import { fileSystems } from '../../lib/files/disk/file-systems.js'
import { nodeTls } from '../../lib/network/node-tls.js'
import { shellWord } from '../../lib/shell-word.js'
import { deadline, systemClock } from '../../lib/time.js'
import { counted, formatSize } from '../../lib/units.js'
import { inspectTls, type TlsPaths } from '../../net/tls-check.js'
import { inspect, type Remark } from '../check/validate.js'
import { type Examination, type Facts, type Finding, finding } from './finding.js'

const DAY_MS = 86_400_000
/** Certificates that end within this time are reported. */
const SOON_MS = 14 * DAY_MS
const HANDSHAKE_MS = 5000
/** The type of tmpfs in statfs. */
const TMPFS = 0x0102_1994
/** The free space that buffers leave to positions (see DiskReserve). */
const RESERVE_BYTES = 256 * 1024 * 1024

/** Checks everything that depends on the user and the environment of the daemon, which are those of this process. */
export async function examine(path: string, env: NodeJS.ProcessEnv): Promise<Examination> {
  const { remarks, config } = await inspect(path, env, components, true)
  // A server is not reported again if its key or certificate cannot be read.
  const files = remarks.flatMap(({ unusable }) => unusable ?? [])
  const isCause = ({ kind, text }: Remark) => kind !== 'failure' || !files.some(file => text.includes(file))
  const wrong = remarks.filter(remark => remark.kind !== 'ok' && isCause(remark))
  const findings = wrong.flatMap(remark => fromRemark(remark, path))
  if (!config) return { findings }
  const facts = factsOf(config)
  const later = [certificates(config, wrong), deadLetters(config, path)]
  findings.push(...unwritable(config, facts), ...watching(facts), ...disk(config), ...(await Promise.all(later)).flat())
  return { findings, facts }
}

function fromRemark({ kind, text, unusable }: Remark, config: string): Finding[] {
  const what = text.replace('warning: ', '')
  const validate = `sluice validate ${kind === 'failure' ? '--online ' : ''}${shellWord(config)}`
  if (kind === 'failure') {
    const [url] = /\bhttps?:\/\/[^\s/]+/.exec(what) ?? []
    const show = url === undefined ? [] : [serverCommand(url, what.slice(what.indexOf(url)))]
    return finding('servers', what, 'Correct what the error names. Then check it again:', ...show, validate)
  }
  if (unusable !== undefined) {
    const bits = what.includes(': data_dir: ') ? 7 : 4
    const access = { path: resolve(unusable), bits, isSecret: /\.\w+_file: /.test(what) }
    return finding('paths', what, '').map(one => ({ ...one, access }))
  }
  const [chmod] = /\bchmod [\w+-]+ \S+[^\s,;]/.exec(what) ?? []
  if (chmod !== undefined) return finding('paths', what, 'Protect it:', chmod)
  const area = what.includes(' is not configured and has ') ? 'leftovers' : 'configuration'
  return finding(area, what, 'Correct the configuration, and check it again:', validate)
}

/** A command that shows the cause of a failed connection. */
function serverCommand(url: string, error: string): string {
  const { hostname, port, protocol } = new URL(url)
  if (/ENOTFOUND|EAI_AGAIN/.test(error)) return `getent ahosts ${shellWord(hostname)}`
  const at = shellWord(`${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`)
  if (/certificate|issuer|authority/i.test(error)) return `openssl s_client -connect ${at} -showcerts </dev/null`
  return `curl -sv -o /dev/null ${shellWord(url)}`
}

function factsOf({ sources, destinations }: Config): Facts {
  const files = sources.map(({ definition, options }) => definition.filesThere?.(options)?.files ?? 0)
  const reads = sources.flatMap(({ definition, options }) =>
    definition.reads ? ((options as { include?: readonly string[] }).include ?? []) : [],
  )
  const writes = destinations.map(({ definition, options }) => options[(definition.writes ?? '') as never] as unknown)
  return {
    files: files.reduce((a, b) => a + b, 0),
    reads: reads.map(pattern => resolve(pattern)),
    writes: writes.flatMap(path => (typeof path === 'string' ? resolve(path) : [])),
  }
}

/** Files of destinations, and a data_dir that does not exist yet, which this user cannot write or create. */
function unwritable({ dataDir }: Config, { writes }: Facts): Finding[] {
  const all = [...writes, ...(existsSync(dataDir) ? [] : [dataDir])]
  return all.flatMap(file => {
    if (fileSystems.mountOf(file) !== undefined) return []
    const path = existing(file)
    const bits = path === file ? constants.W_OK : constants.W_OK | constants.X_OK
    try {
      accessSync(path, bits)
      return []
    } catch (error) {
      const what = `this user cannot write ${file}: ${path} (${errorCode(error)})`
      return finding('paths', what, '').map(one => ({ ...one, access: { path, bits } }))
    }
  })
}

/** The path, or the nearest folder above it that exists. */
const existing = (path: string): string => (existsSync(path) ? path : existing(dirname(path)))

/** inotify reports changes of files to sources. The kernel limits its users and its folders. */
function watching({ reads }: Facts): Finding[] {
  try {
    if (reads.length > 0) watch('/').close()
    return []
  } catch (error) {
    const code = errorCode(error)
    const set = `fs.inotify.${code === 'ENOSPC' ? 'max_user_watches=1048576' : 'max_user_instances=1024'}`
    const what = `the kernel does not report changes of files (${code}), so sources find new lines later`
    const keep = `echo ${set} > /etc/sysctl.d/60-sluice.conf`
    return finding('inotify', what, 'Raise the limit:', `sysctl -w ${set}`, keep)
  }
}

function disk({ dataDir, destinations }: Config): Finding[] {
  if (fileSystems.mountOf(dataDir) !== undefined) return []
  const at = existing(dataDir)
  const { bavail, bsize, blocks, type } = statfsSync(at)
  const [free, size] = [bavail * bsize, blocks * bsize]
  const most = destinations
    .map(({ delivery }) => (delivery?.buffer.type === 'disk' ? delivery.buffer.max_bytes : 0))
    .reduce((a, b) => a + b, 0)
  const lost = type === TMPFS && `data_dir ${dataDir} is in memory (tmpfs): a reboot loses it`
  const isFull = free < Math.min(RESERVE_BYTES, size / 16)
  const full = isFull && `${formatSize(free)} are free for data_dir ${dataDir}, so buffers are not written`
  const large = most > size && `disk buffers may hold ${formatSize(most)}, but the disk has ${formatSize(size)}`
  return [
    ...finding('disk', lost, 'Set data_dir to a folder on a disk:', 'df -h -x tmpfs'),
    ...finding('disk', full, 'Free space:', `du -xhd1 ${shellWord(at)}`),
    ...finding('disk', large, 'Lower buffer.max_bytes:', `df -h ${shellWord(at)}`),
  ]
}

/** Certificates of the configuration and of servers that end soon. Those that have ended are errors of `inspect`. */
async function certificates(config: Config, wrong: readonly Remark[]): Promise<Finding[]> {
  const now = systemClock.wall()
  const ending = (what: string, end: number, command: string) => {
    const days = counted(Math.floor((end - now) / DAY_MS), 'day')
    const text = end > now && end < now + SOON_MS && `the certificate of ${what} ends in ${days}`
    return finding('certificates', text, 'Renew it. Its dates:', `${command} -noout -dates`)
  }
  const found = componentsOf(config).map(async ({ id, options }) => {
    const { tls, redis, url } = options as { tls?: TlsPaths; redis?: TlsPaths; url?: unknown }
    const own = [tls, redis].flatMap(paths => (paths && inspectTls(paths, now).content?.expiries) ?? [])
    const all = own.flatMap(({ file, subject, expiresAt }) =>
      ending(`${id}: ${subject} in ${file}`, expiresAt, `openssl x509 -in ${shellWord(file)}`),
    )
    const isWrong = wrong.some(({ kind, text }) => kind === 'failure' && text.includes(`.${id}: `))
    if (typeof url !== 'string' || !/^https:[^$]*$/.test(url) || isWrong) return all
    const { hostname, port } = new URL(url)
    const at = `${hostname}:${port || 443}`
    const command = `openssl s_client -connect ${shellWord(at)} </dev/null | openssl x509`
    return [...all, ...ending(`${at}, which ${id} sends to,`, await endOf(hostname, Number(port || 443)), command)]
  })
  return (await Promise.all(found)).flat()
}

/** When the certificate of a server ends. NaN if it does not answer, for example because only a proxy may ask. */
async function endOf(host: string, port: number): Promise<number> {
  const limit = deadline(HANDSHAKE_MS)
  // The online check has verified the chain, and nothing is sent here.
  const socket = nodeTls().connect({ host, port, rejectUnauthorized: false })
  try {
    await once(socket, 'secureConnect', { signal: limit.signal })
    return Date.parse(socket.getPeerCertificate().valid_to)
  } catch {
    return Number.NaN
  } finally {
    limit.clear()
    socket.destroy()
  }
}

async function deadLetters({ dataDir, destinations }: Config, path: string): Promise<Finding[]> {
  const found = destinations.map(async ({ id }) => {
    const stock = new DeadLetterStock(pathOf(dataDir, 'dead_letters', id))
    await stock.refresh()
    const { events = 0 } = stock
    const what = `${id}: the receiver rejected ${counted(events, 'event')}, which are in the dead-letter queue`
    const resend = `sluice resend --config ${shellWord(path)} --destination ${shellWord(id)}`
    return finding('leftovers', events > 0 && what, 'Correct the cause, and send them again:', resend)
  })
  return (await Promise.all(found)).flat()
}

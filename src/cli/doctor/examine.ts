import { once } from 'node:events'
import { constants, existsSync, statfsSync, statSync, watch } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { DetailedPeerCertificate, PeerCertificate } from 'node:tls'
import { errorCode } from '../../core/errors.js'
import { componentsOf } from '../../engine/config/inputs.js'
import type { Config } from '../../engine/config/load.js'
import { DeadLetterStock } from '../../engine/run/dead-letter/stock.js'
import { pathOf } from '../../engine/run/state/inventory.js'
import { fileSystems } from '../../lib/files/disk/file-systems.js'
import { refusalOf } from '../../lib/files/refusal.js'
import { nodeTls } from '../../lib/network/node-tls.js'
import { shellWord } from '../../lib/shell-word.js'
import { systemClock } from '../../lib/time.js'
import { counted, formatSize } from '../../lib/units.js'
import { inspectTls, type TlsPaths } from '../../net/tls-check.js'
import { inspectConfig, type Remark } from '../check/validate.js'
import { type Examination, type Facts, finding, type MachineFault } from './finding.js'

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
  const { remarks, config } = await inspectConfig(path, env, undefined, true)
  // A server is not reported again if its key or certificate cannot be read.
  const files = remarks.flatMap(({ unusable }) => unusable ?? [])
  const isCause = ({ kind, text }: Remark) => kind !== 'failure' || !files.some(file => text.includes(file))
  const wrong = remarks.filter(remark => remark.kind !== 'ok' && isCause(remark))
  const findings = wrong.flatMap(remark => fromRemark(remark, path))
  if (!config) return { findings }
  const facts = await factsOf(config)
  const written = existsSync(config.dataDir) ? facts.writes : [...facts.writes, config.dataDir]
  const later = await Promise.all([certificates(config, wrong), deadLetters(config, path)])
  findings.push(...written.flatMap(unwritable), ...readable(config))
  findings.push(...watching(facts), ...disk(config), ...later.flat())
  return { findings, facts }
}

function fromRemark({ kind, text, unusable }: Remark, config: string): MachineFault[] {
  const what = text.replace('warning: ', '')
  const validate = `sluice validate ${kind === 'failure' ? '--online ' : ''}${shellWord(config)}`
  const access = { bits: what.includes(': data_dir: ') ? 7 : 4, isSecret: /\.\w+_file: /.test(what) }
  if (unusable !== undefined) return refused(what, { path: resolve(unusable), ...access })
  const todo = 'Correct what the text names, and check it again:'
  if (kind === 'failure') return finding('servers', what, todo, validate)
  const [chmod] = /\bchmod [\w+-]+ \S+[^\s,;]/.exec(what) ?? []
  if (chmod !== undefined) return finding('paths', what, 'Protect it:', chmod)
  const area = what.includes(' is not configured and has ') ? 'leftovers' : 'configuration'
  return finding(area, what, todo, validate)
}

const refused = (what: string, access: NonNullable<MachineFault['access']>): MachineFault[] =>
  finding('paths', what, '').map(one => ({ ...one, access }))

async function factsOf({ sources, destinations }: Config): Promise<Facts> {
  const facts = { files: 0, reads: [] as string[], writes: [] as string[] }
  for (const { definition, options } of sources) {
    facts.files += (await definition.inspects?.())?.filesThere?.(options)?.files ?? 0
    const { include = [] } = options as { include?: readonly string[] }
    if (definition.reads) facts.reads.push(...include.map(pattern => resolve(pattern)))
  }
  for (const { definition, options } of destinations) {
    const { [definition.writes ?? '']: path } = options as Record<string, unknown>
    if (typeof path === 'string') facts.writes.push(resolve(path))
  }
  return facts
}

/** Files of destinations, and a data_dir that does not exist yet, which this user cannot write or create. */
function unwritable(file: string): MachineFault[] {
  const path = existing(file)
  const bits = path === file ? constants.W_OK : constants.W_OK | constants.X_OK
  const code = refusalOf(path, bits)
  return code === undefined ? [] : refused(`this user cannot write ${file}: ${path} (${code})`, { path, bits })
}

/** The names of options whose file holds a key or a password. `inspectConfig` checks the token of the page. */
const SECRET_FILE = /(?:key|password|credentials)_file$/

/** Files with a key or a password that every user of this machine can read. */
const readable = (config: Config): MachineFault[] =>
  [...componentsOf(config), { id: 'service', options: config.service }].flatMap(({ id, options }) =>
    secretFiles(options).flatMap(file => {
      const isOpen = ((statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o004) !== 0
      const what = isOpen && `${id}: every user of this machine can read ${file}, which holds a key or a password`
      return finding('paths', what, 'Protect it:', `chmod 640 ${shellWord(resolve(file))}`)
    }),
  )

function secretFiles(options: unknown): string[] {
  if (typeof options !== 'object' || Object.getPrototypeOf(options ?? 0) !== Object.prototype) return []
  return Object.entries(options!).flatMap(([name, value]) =>
    typeof value === 'string' && SECRET_FILE.test(name) ? [value] : secretFiles(value),
  )
}

/** The path, or the nearest folder above it that exists. */
const existing = (path: string): string => (existsSync(path) ? path : existing(dirname(path)))

/** inotify reports changes of files to sources. The kernel limits its users and its folders. */
function watching({ reads }: Facts): MachineFault[] {
  try {
    if (reads.length > 0) watch('/').close()
    return []
  } catch (error) {
    const set = `fs.inotify.${errorCode(error) === 'ENOSPC' ? 'max_user_watches=1048576' : 'max_user_instances=1024'}`
    const what = `the kernel does not report changes of files (${errorCode(error)}), so sources find new lines later`
    const keep = `echo ${set} > /etc/sysctl.d/60-sluice.conf`
    return finding('inotify', what, 'Raise the limit:', `sysctl -w ${set}`, keep)
  }
}

function disk({ dataDir, destinations }: Config): MachineFault[] {
  if (fileSystems.mountOf(dataDir) !== undefined) return []
  const at = existing(dataDir)
  const { bavail, bsize, blocks, type } = statfsSync(at)
  const [free, size] = [bavail * bsize, blocks * bsize]
  const buffers = destinations.map(({ delivery }) => (delivery?.buffer.type === 'disk' ? delivery.buffer.max_bytes : 0))
  const most = buffers.reduce((a, b) => a + b, 0)
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

/** Certificates of the configuration and of servers that end soon. Those that have ended are errors of `inspectConfig`. */
async function certificates(config: Config, wrong: readonly Remark[]): Promise<MachineFault[]> {
  const now = systemClock.wall()
  const ending = (what: string, end: number, command: string) => {
    const days = counted(Math.floor((end - now) / DAY_MS), 'day')
    const text = end > now && end < now + SOON_MS && `the certificate of ${what} ends in ${days}`
    return finding('certificates', text, 'Renew it. Its dates:', command)
  }
  const found = componentsOf(config).map(async ({ id, options }) => {
    const { tls, redis, url } = options as { tls?: TlsPaths; redis?: TlsPaths; url?: unknown }
    const own = [tls, redis].flatMap(paths => (paths && inspectTls(paths, now).content?.expiries) ?? [])
    const all = own.flatMap(({ file, subject, expiresAt }) =>
      ending(`${id}: ${subject} in ${file}`, expiresAt, `openssl x509 -noout -dates -in ${shellWord(file)}`),
    )
    const isWrong = wrong.some(({ kind, text }) => kind === 'failure' && text.includes(`.${id}: `))
    if (typeof url !== 'string' || !/^https:[^$]*$/.test(url) || isWrong) return all
    const { hostname, port } = new URL(url)
    const at = `${hostname}:${port || 443}`
    const command = `openssl s_client -showcerts -connect ${shellWord(at)} </dev/null`
    const chain = await chainOf(hostname, Number(port || 443))
    const names = chain.map(({ subject, valid_to }) => [subject.CN, Date.parse(valid_to)] as const)
    const sent = names.flatMap(([name, end]) => ending(`${name} of ${at}, which ${id} sends to,`, end, command))
    return [...all, ...sent]
  })
  return (await Promise.all(found)).flat()
}

/** The certificates that a server sends. Empty if it does not answer, for example because only a proxy may ask. */
async function chainOf(host: string, port: number): Promise<PeerCertificate[]> {
  // The online check has verified the chain, and nothing is sent here.
  const socket = nodeTls().connect({ host, port, rejectUnauthorized: false })
  const signal = AbortSignal.timeout(HANDSHAKE_MS)
  const isOpen = await once(socket, 'secureConnect', { signal }).catch(() => undefined)
  const chain: PeerCertificate[] = []
  let next: DetailedPeerCertificate | undefined = isOpen && socket.getPeerCertificate(true)
  // The last one is its own issuer, or its issuer is unknown.
  for (; next?.valid_to && !chain.includes(next); next = next.issuerCertificate) chain.push(next)
  socket.destroy()
  return chain
}

async function deadLetters({ dataDir, destinations }: Config, path: string): Promise<MachineFault[]> {
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

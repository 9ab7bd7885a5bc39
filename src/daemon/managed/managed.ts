import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import type { Logger } from 'pino'
import { components } from '../../components/list.js'
import { errorCode } from '../../core/errors.js'
import type { Totals } from '../../core/status-document.js'
import { StateUnreadable } from '../../core/unreadable.js'
import type { Config } from '../../engine/config/load.js'
import { filesOf, readWithPlugins } from '../../engine/config/plugins/read-plugins.js'
import { ManagedConfig } from '../../engine/config/published/managed-config.js'
import { dryRun } from '../../engine/run/dry-run.js'
import { lockDataDir } from '../../engine/run/state/data-dir.js'
import { warnIfExposed } from '../../engine/run/state/exposure.js'
import { objectionTo } from '../../engine/run/state/objections.js'
import type { WentBack } from '../../engine/run/supervisor.js'
import { systemRandom } from '../../lib/backoff.js'
import { writeAtomic } from '../../lib/files/atomic-file.js'
import { makeFolder } from '../../lib/files/make-folder.js'
import { sleep, systemClock } from '../../lib/time.js'
import { packageVersion } from '../../lib/version.js'
import { AccessKey } from '../../net/key.js'
import { TlsFiles } from '../../net/tls.js'
import { fetchTrusting } from '../client/fetch-trusting.js'
import { ManagedPipeline } from '../fleet/managed-pipeline.js'
import { RevisionCache } from '../fleet/revision-cache.js'
import { linkTo, readPipelineUrl } from '../fleet/service-link.js'
import { type Io, UsageError } from '../process/command-line.js'
import { EXIT } from '../process/dispatch.js'
import { logNodeWarnings, logWarnings, openLog } from '../process/log.js'
import { type Running, runLocked } from '../run/run.js'
import { waitForRevision } from '../run/wait.js'
import { Systemd } from '../systemd/systemd.js'

/** Time limit for the last report, before the process ends. */
const LAST_REPORT_MS = 2000

export interface RunManagedOptions {
  /** `https://host/v3/pipeline/{id}` */
  readonly url: string
  readonly keyFile: string
  /** File of the authorities to trust; undefined: the public authorities. */
  readonly caFile: string | undefined
  /** The path of the local part of the configuration; undefined: there is none. */
  readonly configPath: string | undefined
  readonly delegate: string | undefined
  readonly metricsOnSocket?: boolean | undefined
}

/** Runs the daemon with a pipeline that a service publishes. Resolves with the exit code. */
export async function runManaged(options: RunManagedOptions, io: Io): Promise<number> {
  const { url, keyFile, caFile, configPath, delegate, metricsOnSocket } = options
  const where = readPipelineUrl(url)
  if (!where)
    throw new UsageError('--pipeline must be the address of a pipeline, as in https://host/v3/pipeline/ID', 'run')
  if (caFile !== undefined && where.base.startsWith('http:'))
    throw new UsageError('--ca-file has no use with an http:// address', 'run')
  const { env, stdin, stdout } = io
  let pluginFiles: readonly string[] = []
  const readLocal = async () => {
    const source = await readWithPlugins(configPath, env)
    pluginFiles = filesOf(source.plugins)
    return new ManagedConfig(source, { env, components, onThisMachine: true, metricsOnSocket })
  }
  const local = await readLocal()
  const files =
    configPath === undefined ? undefined : { path: configPath, digest: local.local.digest, others: () => pluginFiles }
  const { log, setFormat } = openLog(io, { format: local.local.logFormat })
  logNodeWarnings(log)
  logWarnings(log, local.local.warnings)
  const { dataDir } = local.local
  const systemd = Systemd.from(env, { log })
  const lock = await lockDataDir(dataDir)
  try {
    warnIfExposed(log, dataDir)
    const key = new AccessKey({ key_file: keyFile }, log)
    const around = { log, clock: systemClock, random: systemRandom, stdin, stdout }
    const managed = new ManagedPipeline(local, {
      name: `pipeline ${where.id}`,
      link: linkTo(where, key, delegate, caFile === undefined ? undefined : fetchTrusting(authorities(caFile, log))),
      cache: new RevisionCache(dataDir, { url: where.base, id: where.id, log }),
      dryRun: config => dryRun(config, around),
      objectionTo: (next, before) => objectionTo(next, before, log),
      clock: systemClock,
      random: systemRandom,
      log,
      daemon: {
        daemon_id: await daemonId(dataDir),
        host: hostname().slice(0, 255),
        version: packageVersion(),
        started_at: new Date(systemClock.wall()).toISOString(),
      },
    })
    const report = () => ({ pipeline: where.id, service: where.base, ...managed.status })
    const applied = ({ logFormat }: Config) => setFormat(logFormat)
    const config = await waitForRevision(managed, {
      local: local.local,
      readLocal,
      applied,
      files,
      report,
      systemd,
      log,
    })
    if (!config) {
      await Promise.race([managed.leave(), sleep(LAST_REPORT_MS)])
      systemd.ending(0, 'ended')
      await systemd.close()
      return EXIT.done
    }
    log.info({ pipeline: where.id, revision: managed.revision }, 'starting with a published revision')
    const origin = {
      lock,
      systemd,
      reloads: {
        read: async () => managed.reread(await readLocal()),
        inTurn: (work: () => Promise<void>) => managed.inTurn(work),
        applied,
        files,
      },
      ...(configPath !== undefined && { configPath: resolve(configPath) }),
      managed: { report, held: (reason: string) => managed.held(reason) },
      wentBack: (...about: Parameters<WentBack>) => managed.wentBack(...about),
      follow: ({ pipeline, totals, problems, waits }: Running) => {
        const leave = managed.follow(
          pipeline,
          () => reported(totals()),
          problems,
          () => waits.all,
        )
        return () => Promise.race([leave(), sleep(LAST_REPORT_MS)])
      },
    }
    return await runLocked(config, origin, log, io)
  } finally {
    lock.release()
  }
}

/**
 * Returns a function that resolves with the content of the file, and reads the file again if it was replaced. If the
 * file cannot be used, requests to the service fail.
 */
function authorities(file: string, log: Logger): () => Promise<Buffer> {
  const files = new TlsFiles({ ca_file: file }, { log, clock: systemClock, failed: () => {} })
  let ca: Buffer | undefined
  return async () => {
    const content = ca ? await files.renewed() : await files.load()
    ca = content?.ca ?? ca
    return ca!
  }
}

/** Totals for the service, summed over all components. */
function reported({ received, emitted, consumed, delivered, discarded, undelivered }: Totals): Record<string, number> {
  const sum = (counts: object) => Object.values(counts).reduce((all, events) => all + events, 0)
  return {
    received,
    ...(emitted && { emitted: sum(emitted) }),
    ...(consumed && { consumed: sum(consumed) }),
    delivered: sum(delivered),
    discarded: sum(Object.values(discarded).map(sum)),
    undelivered,
  }
}

/** The id of the daemon. It is stored in data_dir and stays the same until data_dir is removed. */
async function daemonId(dataDir: string): Promise<string> {
  const folder = join(dataDir, 'managed')
  const path = join(folder, 'daemon-id')
  try {
    const id = readFileSync(path, 'utf8').trim()
    if (/^[0-9a-f]{24}$/.test(id)) return id
  } catch (error) {
    // This is the first start only if the file is missing. If any other error led to a new id, the service would
    // mistake this daemon for another one.
    if (errorCode(error) !== 'ENOENT') throw new StateUnreadable(path, error)
  }
  const id = randomBytes(12).toString('hex')
  await makeFolder(folder, 0o700)
  await writeAtomic(path, `${id}\n`)
  return id
}

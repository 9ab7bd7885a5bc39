import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { bound } from './bound.js'
import { programPath } from './needs.js'
import { until } from './until.js'

/**
 * podman, or docker with a daemon of its own, in namespaces of processes and mounts: when their first process ends, also
 * because the test was killed, the kernel ends every container and mount. All else is in `folder`. Needs root.
 */
export type Engine = 'podman' | 'docker'

export interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const INSIDE = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child=KILL', '--mount-proc']
/** A new /run hides daemons of this machine. */
const FIRST: Readonly<Record<Engine, string>> = {
  podman: 'mount -t tmpfs tmpfs /run && : >"$1/ready" && exec sleep infinity',
  docker: `mount -t tmpfs tmpfs /run && exec dockerd --data-root "$1/data" --exec-root /run/docker --pidfile /run/docker.pid \\
    --host unix:///run/docker.sock --bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false`,
}

export class Containers {
  readonly engine: Engine
  readonly #first: ChildProcess
  readonly #group = `sluice-containers-${process.pid}`
  readonly #env: NodeJS.ProcessEnv
  #log = ''

  private constructor(engine: Engine, folder: string) {
    this.engine = engine
    mkdirSync(folder, { recursive: true })
    const storage = join(folder, 'storage.conf')
    writeFileSync(storage, `[storage]\ndriver = "overlay"\ngraphroot = "${folder}/storage"\nrunroot = "/run/storage"\n`)
    const engineOptions = 'cgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "runc"\n'
    const containers = join(folder, 'containers.conf')
    writeFileSync(containers, `[containers]\nnetns = "host"\n[engine]\n${engineOptions}`)
    this.#env = {
      PATH: `${dirname(process.execPath)}:${process.env.PATH}:/usr/sbin:/sbin`,
      HOME: folder,
      CONTAINERS_STORAGE_CONF: storage,
      CONTAINERS_CONF: containers,
      DOCKER_HOST: 'unix:///run/docker.sock',
      SOURCE_DATE_EPOCH: '1700000000',
    }
    const command = bound('unshare', [...INSIDE, 'sh', '-c', FIRST[engine], 'sh', folder])
    this.#first = spawn(...command, { env: this.#env, stdio: ['ignore', 'ignore', 'pipe'] })
    this.#first.stderr!.on('data', text => (this.#log = `${this.#log}${text}`.slice(-10_000)))
  }

  static async start(engine: Engine, folder: string): Promise<Containers> {
    const containers = new Containers(engine, folder)
    const isReady = async () =>
      engine === 'podman' ? existsSync(join(folder, 'ready')) : (await containers.run('docker', 'version')).code === 0
    await until(`${engine} starts`, isReady, { show: () => containers.#log })
    return containers
  }

  /** Runs a program where the engine is. */
  run(program: string, ...args: readonly string[]): Promise<Ended> {
    const { pid, exitCode } = this.#first
    if (exitCode !== null) throw new Error(`${this.engine} ended: ${this.#log}`)
    const child = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
    const all = ['--target', child, '--mount', '--pid', '--', program, ...args]
    return new Promise(resolve => {
      execFile('nsenter', all, { env: this.#env, maxBuffer: 2 ** 28 }, (error, stdout, stderr) => {
        resolve({ code: error ? Number(error.code ?? -1) : 0, stdout, stderr })
      })
    })
  }

  /** A command of podman or docker. */
  command(...args: readonly string[]): Promise<Ended> {
    const group = /^(run|create)$/.test(args[0]!) ? ['--cgroup-parent', `/${this.#group}`] : []
    return this.run(this.engine, args[0]!, ...group, ...args.slice(1))
  }

  /** One that has to succeed; what it printed. */
  async do(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.command(...args)
    if (code !== 0)
      throw new Error(`${this.engine} ${args.join(' ')}: exit code ${code}\n${stdout}${stderr}${this.#log}`)
    return stdout.trim()
  }

  async end(): Promise<void> {
    const ids = (await this.run(this.engine, 'ps', '--all', '--quiet')).stdout.split(/\s+/).filter(Boolean)
    if (ids.length > 0) await this.run(this.engine, 'rm', '--force', ...ids)
    this.#first.kill('SIGKILL')
    await until('its namespace ends', () => this.#first.exitCode !== null || this.#first.signalCode !== null)
    for (const controller of ['', ...readdirSync('/sys/fs/cgroup')]) {
      await until(`no ${this.#group}`, () => removed(join('/sys/fs/cgroup', controller, this.#group)))
      // Of the monitors of podman; others may use it.
      if (this.engine === 'podman') removed(join('/sys/fs/cgroup', controller, 'libpod_parent'))
    }
  }
}

function removed(group: string): boolean {
  if (!existsSync(group)) return true
  try {
    for (const entry of readdirSync(group, { withFileTypes: true }))
      if (entry.isDirectory()) removed(join(group, entry.name))
    rmdirSync(group)
  } catch {
    // A process in it has yet to end.
  }
  return !existsSync(group)
}

/** What keeps this machine from running containers; undefined: nothing that is known before it is tried. */
export function whyNoContainers(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'containers are run on Linux, as root'
  const missing = ['podman', 'docker', 'dockerd', 'runc', 'unshare', 'nsenter'].filter(program => !programPath(program))
  return missing.length === 0 ? undefined : `${missing.join(', ')} not found`
}

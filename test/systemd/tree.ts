import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  accessSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { bound } from '../support/bound.js'

/**
 * A Debian with a real systemd, booted in a container of its own; needs root.
 *
 *   whyNoTree(): string | undefined            what is missing on this machine, in words
 *   Tree.boot(options?: TreeOptions): Promise<Tree>
 *   tree.run(program, args?, options?): Promise<Ended>   runs it inside; { code, stdout, stderr }, never rejects for a code
 *   tree.sh(script, options?): Promise<string>  the same for a shell; stdout, and an error with all it said when the code is not 0
 *   tree.path(inside): string                   where a file of the tree is for us; read and write it there
 *   tree.write(inside, text, mode?)             with the folders above it; mode 0644
 *   tree.end(): Promise<void>                   powers off; nothing is left. Call it in any case
 *
 * It has the network of this machine unless it is `alone`, the node that runs this at /usr/bin/node, and a systemd, a journal, logrotate, apt
 * and dpkg of its own. The tree is made once, into $SLUICE_TREES or a folder below the temporary one; each boot writes to
 * a copy of its own. Everything that it mounts is in a mount namespace of its own, and all of it dies with this process.
 */
export interface TreeOptions {
  /** Texts that are there before it boots, by path. */
  readonly files?: Readonly<Record<string, string>>
  /** Folders and files of this machine that are copied in before it boots: from, to. */
  readonly copies?: readonly (readonly [string, string])[]
  /** Packages of Debian that it has besides. */
  readonly packages?: readonly string[]
  /** Whether it has a loopback of its own and no other network: nobody else has the ports then. */
  readonly alone?: boolean
}

export interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly timeoutMs?: number
  readonly input?: string
}

/** Which Debian: 12 has systemd 252, 13 has 257. */
const SUITE = process.env.SLUICE_SUITE ?? 'bookworm'
/** libatomic1 and libstdc++6 are for node. */
const PACKAGES = ['systemd', 'systemd-sysv', 'dbus', 'udev', 'procps', 'logrotate', 'libstdc++6', 'libatomic1']
const PROGRAMS: Record<string, string> = {
  'systemd-nspawn': 'systemd-container',
  mmdebstrap: 'mmdebstrap',
  nsenter: 'util-linux',
  unshare: 'util-linux',
  setpriv: 'util-linux',
}
const MAKE_MS = 600_000
const BOOT_MS = 300_000
const RUN_MS = 600_000
const OFF_MS = 30_000
const LOOK_MS = 50
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
/** What is started in them ends, with its mounts, when `unshare` does. */
const OWN_NAMESPACES = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child=KILL', '--mount-proc']
const home = process.env.SLUICE_TREES ?? join(tmpdir(), 'sluice-trees')

function found(program: string): boolean {
  return `${process.env.PATH ?? ''}:${PATH}`.split(':').some(folder => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return folder !== ''
    } catch {
      return false
    }
  })
}

/** What keeps this machine from booting a tree; undefined: nothing that is known before it is tried. */
export function whyNoTree(): string | undefined {
  if (process.platform !== 'linux') return 'a tree is booted on Linux only'
  if (process.getuid?.() !== 0) return 'only root can boot a tree: run this as root'
  const missing = Object.keys(PROGRAMS).filter(program => !found(program))
  if (missing.length === 0) return undefined
  const packages = [...new Set(missing.map(program => PROGRAMS[program]))]
  return `${missing.join(', ')} not found: apt-get install ${packages.join(' ')}`
}

function call(
  program: string,
  args: readonly string[],
  { timeoutMs = RUN_MS, input }: RunOptions = {},
): Promise<Ended> {
  return new Promise(resolve => {
    const env = { PATH, LANG: 'C.UTF-8', HOME: '/root' }
    const limits = { env, timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: 64 * 1024 * 1024 } as const
    const child = execFile(program, args, limits, (error, stdout, stderr) => {
      const code = typeof error?.code === 'number' ? error.code : error ? -1 : 0
      resolve({ code, stdout, stderr: code === -1 ? `${stderr}${error?.message}\n` : stderr })
    })
    // What does not read its input is no failure.
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
  })
}

function failed(what: string, { code, stdout, stderr }: Ended): Error {
  return new Error(`${what}: exit code ${code}\n${stdout}${stderr}`.trimEnd())
}

function alive(pid: number): boolean {
  return existsSync(`/proc/${pid}`)
}

/** The folder of a tree with these packages; made when it is not there. */
async function madeTree(packages: readonly string[]): Promise<string> {
  const name = createHash('sha256')
    .update(JSON.stringify([SUITE, packages]))
    .digest('hex')
    .slice(0, 12)
  const root = join(home, `${SUITE}-${name}`)
  const lock = `${root}.lock`
  mkdirSync(home, { recursive: true })
  for (;;) {
    if (existsSync(root)) return root
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' })
      break
    } catch {
      const pid = Number(existsSync(lock) ? readFileSync(lock, 'utf8') : 0)
      if (pid > 0 && !alive(pid)) rmSync(lock, { force: true })
      else await sleep(LOOK_MS)
    }
  }
  const unfinished = `${root}.unfinished`
  try {
    if (existsSync(root)) return root
    rmSync(unfinished, { recursive: true, force: true })
    // It mounts /proc and /sys into the tree: killed in between, it must leave nothing that `rmSync` would go into.
    const args = ['mmdebstrap', '--variant=minbase', `--include=${packages.join(',')}`, SUITE, unfinished]
    const made = await call(...bound('unshare', [...OWN_NAMESPACES, ...args]), { timeoutMs: MAKE_MS })
    if (made.code !== 0) throw failed('mmdebstrap cannot make the tree', made)
    renameSync(unfinished, root)
    return root
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
    rmSync(lock, { force: true })
  }
}

/** Folders of the control groups that this process is in: one tree's groups must not be another's. */
function controlGroups(): string[] {
  const lines = readFileSync('/proc/self/cgroup', 'utf8').split('\n')
  return lines.flatMap(line => {
    const [, id, controllers, path = ''] = /^(\d+):([^:]*):(.*)$/.exec(line) ?? []
    const folders =
      id === '0'
        ? ['/sys/fs/cgroup/unified', '/sys/fs/cgroup']
        : controllers === 'name=systemd'
          ? ['/sys/fs/cgroup/systemd']
          : []
    const folder = folders.find(folder => existsSync(join(folder, path, 'cgroup.procs')))
    return folder ? [join(folder, path)] : []
  })
}

function removeGroups(folder: string): void {
  if (!existsSync(folder)) return
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) removeGroups(join(folder, entry.name))
  }
  try {
    rmdirSync(folder)
  } catch {
    // Still in use: the next boot tries again.
  }
}

const PREFIX = 'sluice-tree-'

/** What processes that were killed have left. */
function sweep(boots: string): void {
  const left = (name: string) => name.startsWith(PREFIX) && !alive(Number(name.slice(PREFIX.length).split('-')[0]))
  for (const name of readdirSync(boots)) if (left(name)) rmSync(join(boots, name), { recursive: true, force: true })
  for (const group of controlGroups()) {
    for (const name of readdirSync(group)) if (left(name)) removeGroups(join(group, name))
  }
}

/**
 * In namespaces of its own, of which it is the process 1: the tree of this boot, over the made one where the kernel can do
 * that, else as a copy of it. When the shell ends, however that is, the kernel ends whatever is in there.
 */
const START = `
set -e
base=$1 boot=$2 name=$3; shift 3
for group in "$@"; do mkdir "$group/$name"; echo 0 >"$group/$name/cgroup.procs"; done
mkdir -p "$boot/root" "$boot/work"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$boot/upper,workdir=$boot/work" "$boot/root" 2>/dev/null || {
  cp -a --reflink=auto "$base/." "$boot/root/"
  cp -a "$boot/upper/." "$boot/root/"
}
systemd-nspawn --quiet --directory="$boot/root" --machine="$name" --register=no --keep-unit --boot --console=pipe \\
  --link-journal=no --timezone=off --bind-ro="$NODE:/usr/bin/node" $NETWORK
`

let boots = 0

export class Tree {
  readonly #container: ChildProcess
  readonly #folder: string
  readonly #name: string
  readonly #groups: readonly string[]
  readonly #gone: Promise<void>
  #console = ''
  #isGone = false
  #init = 0

  static async boot({ files = {}, copies = [], packages = [], alone = false }: TreeOptions = {}): Promise<Tree> {
    const why = whyNoTree()
    if (why) throw new Error(why)
    const base = await madeTree([...PACKAGES, ...packages])
    const all = join(home, 'boots')
    mkdirSync(all, { recursive: true })
    sweep(all)
    const name = `${PREFIX}${process.pid}-${++boots}`
    const folder = join(all, name)
    const upper = join(folder, 'upper')
    mkdirSync(upper, { recursive: true })
    try {
      for (const [from, to] of copies) cpSync(from, join(upper, to), { recursive: true, verbatimSymlinks: true })
      for (const [path, text] of Object.entries(files)) write(join(upper, path), text)
      const tree = new Tree(base, folder, name, alone)
      try {
        await tree.#untilBooted()
        return tree
      } catch (error) {
        await tree.end()
        throw error
      }
    } catch (error) {
      rmSync(folder, { recursive: true, force: true })
      throw error
    }
  }

  private constructor(base: string, folder: string, name: string, alone: boolean) {
    this.#folder = folder
    this.#name = name
    this.#groups = controlGroups()
    const args = [...OWN_NAMESPACES, 'sh', '-c', START, 'sh', base, folder, name, ...this.#groups]
    const env = { PATH, NODE: process.execPath, NETWORK: alone ? '--private-network' : '' }
    const stdio: ['ignore', 'pipe', 'pipe'] = ['ignore', 'pipe', 'pipe']
    this.#container = spawn(...bound('unshare', args), { env, stdio })
    for (const stream of [this.#container.stdout, this.#container.stderr]) {
      stream?.on('data', (text: Buffer) => {
        this.#console = `${this.#console}${text}`.slice(-20_000)
      })
    }
    this.#gone = new Promise<void>(resolve => {
      this.#container.on('error', error => {
        this.#console += error.message
        resolve()
      })
      this.#container.on('close', () => resolve())
    }).then(() => {
      this.#isGone = true
    })
  }

  async #untilBooted(): Promise<void> {
    const limit = performance.now() + BOOT_MS
    while (!this.#findInit() || !existsSync(this.path('/run/systemd/private'))) {
      if (this.#isGone) throw new Error(`the tree cannot be booted on this machine:\n${this.#console}`)
      if (performance.now() > limit) throw new Error(`the tree has not booted:\n${this.#console}`)
      await sleep(LOOK_MS)
    }
    const { stdout, stderr } = await this.run('systemctl', ['is-system-running', '--wait'], { timeoutMs: BOOT_MS })
    if (stdout.trim() === 'running') return
    const { stdout: units } = await this.run('systemctl', ['--failed', '--no-legend', '--plain'])
    throw new Error(`the tree is ${stdout.trim()}\n${stderr}${units}${this.#console}`)
  }

  /** The process 1 of the container is the one that is 1 in a namespace within the namespace that it is started in. */
  #findInit(): boolean {
    const below = [this.#container.pid!]
    try {
      for (const pid of below) {
        if (/^NSpid:\s+\d+\s+\d+\s+1$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))) this.#init = pid
        const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
        if (children) below.push(...children.split(' ').map(Number))
      }
    } catch {
      // One of them is gone: the next look finds it.
    }
    return this.#init > 0
  }

  run(program: string, args: readonly string[] = [], options: RunOptions = {}): Promise<Ended> {
    return call('nsenter', ['-t', String(this.#init), '-a', '--', program, ...args], options)
  }

  async sh(script: string, options: RunOptions = {}): Promise<string> {
    const ended = await this.run('sh', ['-ec', script], options)
    if (ended.code !== 0) throw failed(script, ended)
    return ended.stdout
  }

  path(inside: string): string {
    return join(`/proc/${this.#init}/root`, inside)
  }

  write(inside: string, text: string, mode?: number): void {
    write(this.path(inside), text, mode)
  }

  async end(): Promise<void> {
    if (this.#init > 0 && !this.#isGone) await this.run('systemctl', ['poweroff'], { timeoutMs: OFF_MS })
    await Promise.race([this.#gone, sleep(this.#init > 0 ? OFF_MS : 0, undefined, { ref: false })])
    if (!this.#isGone) this.#container.kill('SIGKILL')
    await this.#gone
    rmSync(this.#folder, { recursive: true, force: true })
    for (const group of this.#groups) removeGroups(join(group, this.#name))
  }
}

function write(path: string, text: string, mode = 0o644): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text, { mode })
}

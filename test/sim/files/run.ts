import './gunzip.js'
import { failed } from '../disk.js'
import { Disk, type Opened } from '../disk-calls.js'
import { enter } from '../globals.js'
import { mount } from '../patched-fs.js'
import { World } from '../world.js'
import { Errors } from './errors.js'
import { Exceptions } from './exceptions.js'
import { slowness } from './gunzip.js'
import { Ledger, type Line, namesOf } from './ledger.js'
import { Log } from './log.js'
import { LogFolder } from './log-folder.js'
import { type Life, type Plan, planOf, type WorldKind } from './plan.js'
import { Programs } from './programs.js'
import { type Deeds, Rotator } from './rotations.js'
import { type SavedPositions, Tailing } from './tailing.js'

/** What became of a seed. */
export interface FilesResult {
  readonly seed: number
  readonly kind: WorldKind
  readonly violations: readonly string[]
  readonly trace: readonly string[]
  readonly lines: number
  readonly deeds: Deeds
  readonly kills: number
  readonly restarts: number
  /** Violations that are known, by their names. */
  readonly known: ReadonlyMap<string, number>
  /** The same for the same run. */
  readonly fingerprint: string
}

const LOGS = '/logs'
/** Everything must arrive within this time after the last line. */
const DRAIN_MS = 240_000
/** After it, nothing may come twice. */
const LONGEST_ROTATE_WAIT_MS = 60_000
const QUIET_MS = 14_000
const POLL_MS = 500

export async function runSeed(seed: number, traced = false, hasErrors = false): Promise<FilesResult> {
  Error.stackTraceLimit = traced ? 20 : 0
  const world = new World(seed, traced)
  const plan = planOf(seed, world.random)
  const run = new Run(world, plan, hasErrors)
  const unhandled = (error: unknown) => {
    if (!run.isDead) world.violate(`unhandled: ${error instanceof Error ? error.stack : error}`)
  }
  process.on('unhandledRejection', unhandled)
  process.on('uncaughtException', unhandled)
  enter(world)
  world.say(() => JSON.stringify(plan))
  try {
    await world.run(run.live())
  } catch (error) {
    world.violate(error instanceof Error ? (error.stack ?? error.message) : String(error))
  } finally {
    enter(undefined)
    process.off('unhandledRejection', unhandled)
    process.off('uncaughtException', unhandled)
  }
  const { ledger, deeds, kills, restarts, exceptions } = run
  return {
    seed,
    kind: plan.kind,
    violations: world.violations,
    trace: world.trace ?? [],
    lines: ledger.lines,
    deeds,
    kills,
    restarts,
    known: exceptions.known,
    fingerprint: `${world.tasks} ${world.now.toFixed(6)} ${world.random.next()}`,
  }
}

/** The run of one world: programs write and rotate logs, and the source follows them through several processes. */
class Run {
  readonly exceptions: Exceptions
  readonly ledger: Ledger
  readonly deeds: Deeds = { rotations: 0, copies: 0, gzips: 0, deletedUnread: 0 }
  kills = 0
  restarts = 0
  readonly #world: World
  readonly #plan: Plan
  readonly #disk: Disk
  readonly #folder: LogFolder
  readonly #programs: Programs
  readonly #errors: Errors | undefined
  readonly #positions: SavedPositions = { document: undefined }
  readonly #root: string
  #tailing: Tailing
  #killAfter: number | undefined
  #lostBytes = 0

  constructor(world: World, plan: Plan, hasErrors: boolean) {
    this.#world = world
    this.#plan = plan
    this.#disk = new Disk(world)
    this.#disk.makeFolder(LOGS)
    this.#disk.habits = plan.habits
    this.#disk.faults.latencyMs = plan.latencyMs
    this.#root = mount(this.#disk)
    this.exceptions = new Exceptions(world, plan)
    this.ledger = new Ledger(this.exceptions, plan.rotation.deletesUnread)
    this.#folder = new LogFolder(LOGS, this.#disk, this.ledger)
    this.#programs = new Programs(world)
    if (hasErrors) this.#errors = new Errors(world.seed, plan.style, LOGS, this.#disk, this.ledger)
    this.#disk.beforeCall = (call, path, opened) => this.#beforeCall(call, path, opened)
    this.#tailing = this.#next()
  }

  #begin(): void {
    this.#tailing = this.#next()
    this.ledger.restarted()
  }

  get isDead(): boolean {
    return this.#tailing.isDead
  }

  #next(): Tailing {
    const { include, exclude, options, surroundings } = this.#plan
    const all = { include: [`${this.#root}${LOGS}/${include}`], exclude, ...options }
    return new Tailing(this.#world, this.#disk, this.ledger, { ...surroundings, options: all }, this.#positions)
  }

  /** A call takes time, in which other programs go on; the process may be killed in it. */
  #beforeCall(call: string, path: string, opened?: Opened): void {
    const { random } = this.#world
    const { callMs, interrupts } = this.#plan
    if (!this.#world.isAlive) throw failed('EINTR', call, path)
    if (callMs > 0) {
      this.#world.now += callMs * random.next() ** 4
      this.#programs.catchUp()
    }
    if (interrupts > 0 && random.chance(interrupts)) this.#programs.hurry()
    if (this.#killAfter !== undefined && --this.#killAfter < 0) {
      this.#world.say(() => `--- killed in ${call} ${path}`)
      this.#tailing.kill()
      throw failed('EINTR', call, path)
    }
    this.#errors?.check(call, path, opened)
    if (this.#tailing.isStopping) return
    this.#folder.seen(path, call)
  }

  async live(): Promise<void> {
    const { random } = this.#world
    const { logs, style, rotation, lives } = this.#plan
    slowness.ms = this.#plan.inflatingMs
    for (const [i, name] of logs.entries()) {
      const log = new Log('ab'[i]!, name, this.#folder, this.#world, style)
      this.#programs.start(log.write())
      this.#programs.start(new Rotator(log, this.#world, rotation, this.deeds, () => this.#isKnown(name)).run())
    }
    await this.#world.wait(random.next() * 500)
    for (const life of lives) await this.#live(life)
    await this.#finish()
    if (this.#world.violations.length === 0 && this.#plan.startsOnceMore) {
      this.#begin()
      await this.#tailing.start()
      await this.#world.wait(QUIET_MS)
      await this.#end()
    }
  }

  async #live({ ms, ending, calls, awayMs }: Life): Promise<void> {
    this.#begin()
    this.#killAfter = ending === 'kill in a call' ? calls : undefined
    const until = this.#world.now + ms
    await this.#tailing.start()
    while (!this.#tailing.isDead && this.#world.now < until) await this.#world.wait(POLL_MS)
    this.#killAfter = undefined
    if (ending === 'stop' && !this.#tailing.isDead) await this.#tailing.stop()
    if (ending === 'stop') this.restarts++
    else this.kills++
    this.#bury()
    await this.#world.wait(awayMs)
  }

  #isKnown(name: string): boolean {
    const { files = [] } = this.#positions.document ?? {}
    return files.some(({ path, file = path }) => file.endsWith(`/${name}`))
  }

  #bury(): void {
    this.#lostBytes += this.#tailing.value('sluice_file_lost_bytes_total')
    this.#world.say(() => '--- the source is gone')
    this.#tailing.bury()
  }

  /** The last process runs until everything is where it has to be. */
  async #finish(): Promise<void> {
    const world = this.#world
    this.#begin()
    await this.#tailing.start()
    while (!this.#programs.areOver) await world.wait(POLL_MS)
    world.say(() => '--- everything is written')
    const until = world.now + DRAIN_MS
    while (this.#missing().length > 0 && world.now < until) await world.wait(POLL_MS)
    await world.wait(QUIET_MS)
    const missing = this.#missing()
    const onDisk = this.ledger.onDisk(this.#disk.tree.files(LOGS))
    const places = new Set(missing.map(line => onDisk.get(line) ?? 'nowhere'))
    if (missing.length > 0)
      this.exceptions.violate(
        'missing',
        `missing: ${namesOf(missing)}, which are in ${[...places].join(', ')}`,
        missing[0]!,
      )
    // What is gone is lost after rotate_wait.
    const reported = world.now + LONGEST_ROTATE_WAIT_MS + QUIET_MS
    while (this.#unreported.length > 0 && world.now < reported) await world.wait(POLL_MS)
    await this.#end()
    const lost = this.#unreported
    if (lost.length > 0) this.exceptions.violate('unreported', `lost, and not reported: ${namesOf(lost)}`, lost[0]!)
  }

  async #end(): Promise<void> {
    await this.#tailing.stop()
    this.#bury()
  }

  /** What must still come. A rotation may have deleted lines unread, where the world allows that. */
  #missing() {
    const missing = this.ledger.missing()
    if (!this.#plan.rotation.deletesUnread || missing.length === 0) return missing
    const onDisk = this.ledger.onDisk(this.#disk.tree.files(LOGS))
    return missing.filter(line => onDisk.has(line))
  }

  /** Lost lines that the source knew of, if it reported no loss. A killed process may have been the only one that knew. */
  get #unreported(): readonly Line[] {
    if (this.kills > 0 || this.#lostBytes + this.#tailing.value('sluice_file_lost_bytes_total') > 0) return []
    return this.ledger.missing().filter(({ wasSeen }) => wasSeen === true)
  }
}

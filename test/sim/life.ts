import { Supervisor } from '../../src/engine/run/supervisor.js'
// What the engine loads when it needs it. Loading takes real time, which a seed must not depend on.
import '../../src/core/event/event-editor.js'
import '../../src/engine/run/same-components.js'
import '../../src/engine/flow/disk-buffer/disk-buffer.js'
import '../../src/engine/flow/disk-buffer/recovery.js'
import '../../src/engine/flow/disk-buffer/segments.js'
import '../../src/engine/flow/stage.js'
import { makeFolder } from '../../src/lib/files/make-folder.js'
import { changes, heal } from './calamities.js'
import { configOf } from './configuration.js'
import { timers } from './globals.js'
import { checkCounters, type Outcome, sayWhatIsHeld } from './invariants.js'
import type { Machine } from './machine.js'
import { mount } from './patched-fs.js'
import { type Counters, runtimeIn } from './process.js'
import type { Tears } from './tears.js'
import { waits } from './throttle.js'
import { changed, type Topology } from './topology.js'

/** One process from its start to its end, and what happens to it meanwhile. */

export type Ending = 'kill' | 'power' | 'stop' | 'abort'

const CHECK_MS = 400
const RESTART_MS = 1000
/** What happens to the last process before nothing fails any more. */
const TROUBLES = 4
const TROUBLE_MS = 1000
/** After its deadline a stop only writes down what there is. */
const STOP_GRACE_MS = 5000
/** How long the last stop may take. */
export const LAST_STOP_MS = 120_000
/** All has to arrive within this time once nothing fails any more. */
const DRAIN_MS = 30 * 60_000

export interface LifePlan {
  readonly ms: number
  readonly ending: Ending
  /** Milliseconds between two things that happen to it. */
  readonly calamityMs: number
  readonly reloads: boolean
  /** Whether something is wrong already when it starts. */
  readonly isTroubled: boolean
  /** In the middle of so many calls of the disk. */
  readonly killAfter: number | undefined
  /** In the middle of a write, after so many others. */
  readonly killAfterWrites: number | undefined
}

export class Life {
  readonly #machine: Machine
  readonly #tears: Tears
  #topology: Topology
  #supervisor: Supervisor | undefined
  #counters: Counters | undefined
  #root = ''
  #isOver = false
  #killed: Promise<void>
  #endKilled = () => {}

  constructor(machine: Machine, topology: Topology, tears: Tears) {
    this.#machine = machine
    this.#tears = tears
    this.#topology = topology
    this.#killed = new Promise(resolve => {
      this.#endKilled = resolve
    })
  }

  /** The topology that ran last. */
  get topology(): Topology {
    return this.#topology
  }

  /** Runs as planned. */
  async run(plan: LifePlan): Promise<void> {
    const { world, disk } = this.#machine
    const { random } = world
    this.#begin()
    disk.killAfter = plan.killAfter
    disk.killAfterWrites = plan.killAfterWrites
    if (plan.isTroubled) changes(this.#machine)
    const end = world.now + plan.ms
    const running = this.#start(() => world.now >= end)
    while (!this.#isOver && world.now < end) {
      await world.wait(Math.min(end - world.now, plan.calamityMs * (0.5 + random.next())))
      if (this.#isOver) break
      this.#check()
      changes(this.#machine)
      if (plan.reloads && random.chance(0.3)) this.#reload()
    }
    if (!this.#isOver) await this.#end(plan.ending, running)
    this.#bury(plan.ending === 'power')
  }

  /** Runs until everything is where it has to be, and ends in order. With `troubled`, not everything works at first. */
  async finish(outcome: Outcome, troubled: boolean): Promise<void> {
    const { world } = this.#machine
    this.#begin()
    const running = this.#start(() => false)
    if (troubled) await this.#recovers()
    const end = world.now + DRAIN_MS
    let missing = outcome.missing(1)
    // A destination on hold is not waited for by a stop, and neither is an event that waits for room.
    const holdsBack = troubled || this.#topology.processors.some(({ throttle }) => waits(throttle))
    const goesOn = () => missing.length > 0 || (holdsBack && this.#supervisor?.undelivered() !== 0)
    for (let ms = CHECK_MS; goesOn() && world.now < end; ms = Math.min(ms * 1.3, 10_000)) {
      await world.wait(ms)
      this.#check()
      missing = outcome.missing(1)
    }
    if (missing.length > 0) {
      world.violate(`lost: ${outcome.missing().join(', ')}`)
      sayWhatIsHeld(world, this.#supervisor?.states() ?? [], this.#counters?.components ?? new Map())
    }
    await this.#end('stop', running, true)
    this.#bury(false)
  }

  /** It goes on by itself when nothing fails any more. */
  async #recovers(): Promise<void> {
    const { world } = this.#machine
    for (let i = 0; i < TROUBLES; i++) {
      await world.wait(TROUBLE_MS * world.random.next())
      this.#check()
      changes(this.#machine)
    }
    heal(this.#machine)
  }

  #begin(): void {
    const { world, disk, topics, receivers, throttles } = this.#machine
    this.#root = mount(disk)
    if (throttles.size > 0) for (const receiver of receivers.values()) receiver.forgetOrder()
    for (const topic of topics.values()) topic.isSaved = () => {}
    world.isAlive = true
    world.say(() => '--- the process starts')
    world.onKilled = () => {
      if (this.#isOver) return
      world.say(() => '--- the process is killed')
      this.#isOver = true
      this.#endKilled()
    }
  }

  /** Starts the process again, as an init system does, until it runs; resolves when it has ended. */
  async #start(isLate: () => boolean): Promise<void> {
    const { world } = this.#machine
    while (!this.#isOver) {
      const { metrics, ...rest } = runtimeIn(world)
      this.#counters = metrics
      try {
        // As the daemon does for its lock.
        await makeFolder(`${this.#root}/data`, 0o700)
        const build = Supervisor.build(configOf(this.#topology, this.#root), { ...rest, metrics })
        this.#supervisor = await build
      } catch (error) {
        world.say(() => `cannot start: ${error}`)
        if (isLate()) return
        await world.wait(RESTART_MS)
        continue
      }
      try {
        return await this.#supervisor.run()
      } catch (error) {
        return world.violate(`the run was rejected: ${(error as Error).stack}`)
      }
    }
  }

  #reload(): void {
    const { world } = this.#machine
    const next = changed(this.#topology, world.random)
    const supervisor = this.#supervisor
    if (!supervisor) return
    world.say(() => `reload: ${JSON.stringify(next)}`)
    world.fault('reload')
    supervisor.replace(configOf(next, this.#root), { keepsEvents: true }).then(
      () => {
        this.#topology = next
        world.say(() => 'reload: done')
      },
      error => world.say(() => `reload: refused: ${error}`),
    )
  }

  async #end(ending: Ending, running: Promise<void>, isLast = false): Promise<void> {
    const { world } = this.#machine
    world.say(() => `--- ${ending}`)
    if (!isLast) world.fault(ending)
    const supervisor = this.#supervisor
    if (ending === 'kill' || ending === 'power' || !supervisor) return world.kill()
    const ms = this.#topology.shutdownMs
    const deadline = new AbortController()
    if (ending === 'abort') supervisor.abort()
    else {
      supervisor.stop(deadline.signal)
      world.after(ms, () => deadline.abort(), true)
    }
    const late = world.wait(
      (ending === 'abort' ? 0 : ms) + STOP_GRACE_MS + (isLast ? 0 : 60 * this.#machine.disk.faults.latencyMs),
    )
    const end = await Promise.race([
      running.then(() => 'ended'),
      late.then(() => 'late'),
      this.#killed.then(() => 'killed'),
    ])
    if (end === 'killed') return
    if (end === 'late') world.violate(`the stop did not come to its end (${ending})`)
    else this.#checkEnd(isLast)
    world.kill()
  }

  /** What holds after a process has ended in order. */
  #checkEnd(isLast: boolean): void {
    const { world, disk } = this.#machine
    this.#check()
    const left = this.#supervisor!.undelivered()
    if (isLast && left !== 0) world.violate(`${left} events are said to be undelivered`)
    if (isLast && disk.opened.length > 0) world.violate(`files are left open: ${disk.opened.join(', ')}`)
    if (isLast && timers.size > 0) world.violate(`${timers.size} timers are left`)
    if (isLast) for (const { setBy } of timers) world.say(() => `a timer that is left: ${setBy}`)
  }

  #check(): void {
    if (this.#counters) checkCounters(this.#machine, this.#counters.components.values())
    for (const topic of this.#machine.topics.values()) topic.isSaved()
  }

  #bury(powerFailed: boolean): void {
    const { disk, topics } = this.#machine
    this.#isOver = true
    this.#tears.check(this.#topology, this.#counters?.components ?? new Map())
    for (const topic of topics.values()) topic.isSaved()
    timers.clear()
    if (powerFailed) disk.powerFailed()
    else disk.killed()
    this.#tears.excuse(this.#topology)
    heal(this.#machine)
  }
}

import { Clients, clientsOf } from './clients.js'
import { Disk } from './disk-calls.js'
import { enter } from './globals.js'
import { Outcome } from './invariants.js'
import { LAST_STOP_MS, Life } from './life.js'
import { type Machine, useMachine } from './machine.js'
import { mayRepeat, promisesOrder } from './order.js'
import { Receiver } from './receiver.js'
import { Tears } from './tears.js'
import { Topic } from './topic.js'
import { makeTopology, type Topology } from './topology.js'
import { World } from './world.js'

/** What became of a seed. */
export interface Result {
  readonly seed: number
  readonly violations: readonly string[]
  readonly faults: ReadonlyMap<string, number>
  /** The same for the same run. */
  readonly fingerprint: string
  readonly trace: readonly string[]
  readonly seconds: number
  readonly tasks: number
  readonly calls: number
}

export async function runSeed(seed: number, traced = false): Promise<Result> {
  // Stacks take more time than everything else. A seed that is run again by itself has them.
  Error.stackTraceLimit = traced ? 20 : 0
  const world = new World(seed, traced)
  const { random } = world
  const topology = makeTopology(world)
  const disk = new Disk(world)
  disk.makeFolder('/out')
  disk.tree.root.sync()
  const topics = new Map(topology.sources.map(({ id }) => [id, new Topic(id, world)]))
  const receivers = new Map(topology.destinations.map(({ id }) => [id, new Receiver(id, world)]))
  const throttles = new Map(
    topology.processors
      .filter(({ deed }) => deed === 'throttle')
      .map(({ id, inputs }) => [
        id,
        { fates: new Map(), changed: new Set<string>(), hasCopies: mayRepeat(topology, inputs) },
      ]),
  )
  const machine: Machine = { world, disk, topics, receivers, throttles }
  for (const { id, kind } of topology.sources) {
    const topic = topics.get(id)!
    if (kind === 'clients') clientsOf.set(topic, new Clients(topic, world))
  }
  // A throttle may have decided on the event, or on a part of it that an earlier processor made.
  const isChanged = (mark: string) =>
    [...throttles.values()].some(({ changed }) => changed.has(mark) || changed.has(mark.replace(/[xy]$/, '')))
  for (const receiver of receivers.values()) {
    const inOrder = new Set([...topics.keys()].filter(topic => promisesOrder(topology, topic, receiver.id)))
    receiver.ordered = mark => inOrder.has(mark[0]!) && !isChanged(mark)
  }
  world.say(() => JSON.stringify(topology))
  const unhandled = (error: unknown) => world.violate(`unhandled: ${error instanceof Error ? error.stack : error}`)
  process.on('unhandledRejection', unhandled)
  process.on('uncaughtException', unhandled)
  enter(world)
  useMachine(machine)
  try {
    await world.run(live(machine, topology))
  } catch (error) {
    world.violate(error instanceof Error ? (error.stack ?? error.message) : String(error))
  } finally {
    enter(undefined)
    useMachine(undefined)
    process.off('unhandledRejection', unhandled)
    process.off('uncaughtException', unhandled)
  }
  return {
    seed,
    violations: world.violations,
    faults: world.faults,
    fingerprint: `${world.tasks} ${world.now.toFixed(6)} ${random.next()}`,
    trace: world.trace ?? [],
    seconds: world.now / 1000,
    tasks: world.tasks,
    calls: disk.calls,
  }
}

async function live(machine: Machine, topology: Topology): Promise<void> {
  const { random, size } = machine.world
  const isCalm = random.chance(0.1)
  const lives = isCalm ? 0 : random.pick(size.lives)
  const tears = new Tears(machine)
  let current = topology
  for (let i = 0; i < lives; i++) {
    const life = new Life(machine, current, tears)
    await life.run({
      ms: random.pick(size.lifeMs) * (0.2 + random.next()),
      ending: random.pick(size.endings),
      calamityMs: random.pick(size.calamityMs),
      isTroubled: random.chance(size.startsInTrouble),
      reloads: random.chance(size.reloads),
      killAfter: random.chance(0.3) ? random.below(random.pick(size.calls)) : undefined,
      killAfterWrites: random.chance(size.killsInWrite) ? random.below(4) : undefined,
    })
    current = life.topology
    await machine.world.wait(100)
  }
  const outcome = new Outcome(machine, topology)
  await new Life(machine, inTheEnd(current), tears).finish(outcome, !isCalm && random.chance(0.5))
  if (isCalm) for (const text of outcome.repeated()) machine.world.violate(text)
}

/** Buffers may hold something whose destination has none any more. Nothing is given up for want of time. */
function inTheEnd(topology: Topology): Topology {
  const destinations = topology.destinations.map(one => ({ ...one, buffer: 'disk' as const, maxWaitMs: 1 }))
  return { ...topology, destinations, shutdownMs: LAST_STOP_MS }
}

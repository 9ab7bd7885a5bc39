import './level.js'
import { openLevelStore } from '../../../src/service/api/store/level.js'
import type { Store } from '../../../src/service/api/store/store.js'
import { changes, heal } from '../calamities.js'
import { timers } from '../globals.js'
import type { Machine } from '../machine.js'
import { mount } from '../patched-fs.js'
import { PAIRS, Writes } from './writes.js'

/** The store of the service: writers, a disk that fails, kills and power failures. */

const PAUSE_MS = 40
const RESTART_MS = 500
const LAST_MS = 120_000

export async function storeLives(machine: Machine): Promise<void> {
  const { random, size } = machine.world
  const writes = new Writes(machine.world)
  const lives = 1 + random.below(size.storeLives)
  for (let i = 0; i < lives; i++) {
    await live(machine, writes, random.pick(size.storeMs) * (0.3 + random.next()))
    await machine.world.wait(50)
  }
  await finish(machine, writes)
}

function begin(machine: Machine): { killed: Promise<void>; path: string } {
  const { world, disk } = machine
  const path = `${mount(disk)}/data/store`
  world.isAlive = true
  world.say(() => '--- the service starts')
  const killed = new Promise<void>(resolve => {
    world.onKilled = resolve
  })
  return { killed, path }
}

/** Opens the store, as often as that takes. */
async function opened(machine: Machine, path: string, writes: Writes): Promise<Store> {
  const { world } = machine
  const process = world.killed
  while (world.killed === process) {
    try {
      const store = await openLevelStore(path)
      store.watch('pair/', () => {
        writes.changes++
      })
      await writes.checkAll(store)
      return store
    } catch (error) {
      world.say(() => `store: cannot be opened: ${error}`)
      if (/DAMAGED|is damaged/.test(String(error))) world.violate(`store: ${error}`)
      await world.wait(RESTART_MS)
    }
  }
  return await new Promise<never>(() => {})
}

async function live(machine: Machine, writes: Writes, ms: number): Promise<void> {
  const { world, disk } = machine
  const { random, size } = world
  const { killed, path } = begin(machine)
  if (random.chance(0.4)) disk.killAfter = random.below(random.pick(size.calls))
  const end = world.now + ms
  const process = world.killed
  const work = async () => {
    const store = await opened(machine, path, writes)
    const writer = async (first: number) => {
      while (world.now < end && world.killed === process) {
        await writes.write(store, (first + 2 * random.below(PAIRS / 2)) % PAIRS, random.chance(0.5))
        await world.wait(random.below(PAUSE_MS))
      }
    }
    const weather = async () => {
      while (world.now < end && world.killed === process) {
        await world.wait(random.below(400))
        if (world.killed === process) changes(machine)
      }
    }
    await Promise.all([writer(0), writer(1), weather()])
    if (world.killed === process && random.chance(0.3)) await store.close()
  }
  await Promise.race([work(), killed, world.wait(ms + LAST_MS)])
  if (world.isAlive) world.kill()
  bury(machine, writes, random.chance(0.5))
}

/** Once nothing fails any more, everything is there, and writes are saved again. */
async function finish(machine: Machine, writes: Writes): Promise<void> {
  const { world, disk } = machine
  const { path } = begin(machine)
  const late = world.wait(LAST_MS).then(() => 'late')
  const work = async () => {
    const store = await opened(machine, path, writes)
    for (let pair = 0; pair < PAIRS; pair++)
      if (!(await writes.write(store, pair, false))) world.violate('store: a write fails though nothing is wrong')
    await store.close()
    return 'ended'
  }
  if ((await Promise.race([work(), late])) === 'late') world.violate('store: it does not come to its end')
  if (disk.opened.length > 0) world.violate(`store: files are left open: ${disk.opened.join(', ')}`)
  if (timers.size > 0) world.violate(`store: ${timers.size} timers are left`)
  world.kill()
  bury(machine, writes, false)
}

function bury(machine: Machine, writes: Writes, powerFailed: boolean): void {
  writes.killed()
  timers.clear()
  if (powerFailed) machine.disk.powerFailed()
  else machine.disk.killed()
  heal(machine)
}

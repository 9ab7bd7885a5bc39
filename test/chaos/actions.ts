import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Inode } from './files.js'
import { bufferFiles, damage, documentPaths, Saved } from './saved.js'
import { type Patience, PLAIN, SLOTS, type Step } from './scenario.js'
import { DESTINATION, pause, type World } from './world.js'

const LINE_BYTES = 60
const LINK = SLOTS.length - 1

/** Does one step, as far as there is something to do it to; false: there was nothing. */
export async function perform(world: World, step: Step): Promise<boolean> {
  const { files, receiver, daemon } = world
  switch (step.do) {
    case 'append': {
      const path = files.path(step.slot)
      const inode = files.ensure(path)
      if (inode) files.append(inode, path, step)
      return inode !== undefined
    }
    case 'rotate':
      return await rotate(world, step)
    case 'copytruncate':
      return await copyTruncate(world, step)
    case 'gzip': {
      const [path] = files.rotated(step.slot)
      if (path === undefined || !files.gzip(path)) return false
      for (let content = files.at(path)?.content; content; content = content.original) content.compressed = true
      await lose(world, path, step.wait, () => files.unlink(path))
      return true
    }
    case 'archive': {
      const path = files.rotated(step.slot)[0] ?? files.path(step.slot)
      const to = join(files.archive, `${basename(files.fresh(step.slot, ''))}.log`)
      return existsSync(path) && (await lose(world, path, step.wait, () => files.rename(path, to)))
    }
    case 'delete':
      return await remove(world, step)
    case 'replace': {
      const path = files.path(step.slot)
      const inode = files.create(`${path}.tmp`)
      if (!inode) return false
      files.append(inode, `${path}.tmp`, { lines: step.lines, bytes: LINE_BYTES })
      return await lose(world, path, step.wait, () => files.rename(`${path}.tmp`, path))
    }
    case 'swap':
      return swap(world, step.slots)
    case 'bring_back': {
      const [from] = files.rotated(step.slot)
      const path = files.path(step.slot)
      if (from) files.rename(from, existsSync(path) ? files.dated(step.slot) : path)
      return from !== undefined
    }
    case 'hard_link': {
      const path = files.path(step.slot)
      if (!existsSync(path)) return false
      files.link(path, files.fresh(step.slot, step.inside ? '.log' : '.other'))
      return true
    }
    case 'unlink': {
      const path = files.path(step.slot)
      return existsSync(path) && (await lose(world, path, 'open', () => files.unlink(path)))
    }
    case 'switch':
      return await switchLink(world, step)
    case 'empty': {
      const path = files.path(step.slot)
      return !existsSync(path) && files.createEmpty(path) !== undefined
    }
    case 'late':
      return late(world, step.lines)
    case 'receiver':
      await receiver.fail(step.fault, step.times)
      return true
    case 'heal': {
      const { healthy } = receiver
      await world.heal()
      return !healthy && receiver.healthy
    }
    case 'kill':
      await world.kill()
      return daemon?.running === false
    case 'term':
      await world.term()
      return daemon?.running === false
    case 'start':
      return await start(world, step.wait)
    case 'restart':
      await (step.signal === 'KILL' ? world.kill() : world.term())
      return await start(world, true)
    case 'freeze':
      return world.freeze()
    case 'thaw':
      return world.thaw()
    case 'unwritable':
      return world.makeUnwritable(step.all === true)
    case 'full':
      return world.fill(step.where)
    case 'writable': {
      const { stateFault } = world
      world.makeWritable()
      return stateFault
    }
    case 'damage':
      return await damageFiles(world, step)
    case 'saved':
      if (world.flowing) await world.taken()
      if (!world.flowing) return false
      await world.saved()
      return true
    case 'taken':
      if (!world.flowing) return false
      await world.taken()
      return true
    case 'pause':
      await pause(step.ms)
      return true
  }
}

type Of<K extends Step['do']> = Extract<Step, { do: K }>

/** Shifts what was rotated before, as programs do that number it, and says where the next one goes. */
async function makeRoom(world: World, { slot, names, depth }: Of<'rotate' | 'copytruncate'>): Promise<string> {
  const { files } = world
  if (names === 'dates') return files.dated(slot)
  const path = files.path(slot)
  const numbered = (i: number) => `${path}.${i}`
  for (let i = depth + 5; i >= 1; i--) {
    if (!existsSync(numbered(i))) continue
    if (i >= depth) await lose(world, numbered(i), 'open', () => files.unlink(numbered(i)))
    else files.rename(numbered(i), numbered(i + 1))
  }
  return numbered(1)
}

async function rotate(world: World, step: Of<'rotate'>): Promise<boolean> {
  const { files } = world
  const path = files.path(step.slot)
  const there = existsSync(path)
  if (there) {
    const inode = files.at(path)
    const to = await makeRoom(world, step)
    if (step.keep && inode) files.keep(inode, path)
    await lose(world, path, step.wait, () => files.rename(path, to))
  }
  if (step.create && !existsSync(path)) files.create(path)
  return there
}

async function copyTruncate(world: World, step: Of<'copytruncate'>): Promise<boolean> {
  const { files } = world
  const path = files.path(step.slot)
  const inode = files.at(path)
  if (!inode) return false
  const to = await makeRoom(world, step)
  await wait(world, inode, path, step.wait)
  files.copy(path, to)
  world.noteKept()
  files.truncate(path)
  if (step.lines > 0) files.append(inode, path, { lines: step.lines, bytes: LINE_BYTES })
  return true
}

async function remove(world: World, step: Of<'delete'>): Promise<boolean> {
  const { files } = world
  const path = files.path(step.slot)
  const there = existsSync(path)
  if (there) {
    const inode = files.at(path)
    if (step.keep && inode) files.keep(inode, path)
    await lose(world, path, step.wait, () => files.unlink(path))
  }
  if (!step.recreate) return there
  const made = files.create(path)
  if (made) files.append(made, path, { lines: step.lines, bytes: LINE_BYTES })
  return there && made !== undefined
}

/** The names go round. */
function swap(world: World, slots: number[]): boolean {
  const { files } = world
  const paths = slots.map(slot => files.path(slot))
  if (!paths.every(existsSync)) return false
  for (const path of paths) {
    const inode = files.at(path)
    if (inode) inode.content.renamed = true
  }
  const aside = `${paths[0]!}.tmp`
  files.rename(paths[0]!, aside)
  for (let i = 1; i < paths.length; i++) files.rename(paths[i]!, paths[i - 1]!)
  files.rename(aside, paths.at(-1)!)
  return true
}

async function switchLink(world: World, step: Of<'switch'>): Promise<boolean> {
  const { files } = world
  const link = files.path(LINK)
  const old = files.target
  const target = files.newTarget(step.inside)
  if (target === undefined) return false
  const inode = files.at(target)
  if (inode) files.append(inode, target, { lines: step.lines, bytes: LINE_BYTES })
  await lose(world, link, step.wait, () => void files.point(target))
  if (step.drop && old !== undefined && existsSync(old)) await lose(world, old, 'none', () => files.unlink(old))
  return true
}

/** A program that did not notice goes on with the file that was renamed or deleted. */
function late(world: World, lines: number): boolean {
  const { files, daemon, model } = world
  const inode = files.kept
  if (!inode) return false
  files.append(inode, undefined, { lines, bytes: LINE_BYTES })
  if (!daemon?.running || daemon.holds(inode.key)) return true
  const paths = files.named().get(inode) ?? []
  if (!paths.some(path => files.matches(path))) model.excuse(inode.content, 'written after it was let go of')
  return true
}

/** Waits as long as somebody would who cares for his logs, as far as that makes sense now. */
async function wait(world: World, inode: Inode, path: string, patience: Patience): Promise<void> {
  const { daemon, setup, files, model } = world
  if (patience === 'none' || !daemon?.awake || !files.matches(path)) return
  if (patience === 'taken' && world.flowing) return await world.taken(inode)
  if (setup.openFiles < PLAIN.openFiles) return
  const isOpen = () => model.isBare(inode.content) || daemon.holds(inode.key)
  await world.until(`${path} to be opened`, () => isOpen() || !daemon.awake)
}

/** The file at `path`, if there is one, loses this name by `act`. Settles whether it must still be read. */
async function lose(world: World, path: string, patience: Patience, act: () => void): Promise<boolean> {
  const { files, setup, model, state } = world
  const inode = files.at(path)
  if (inode) await wait(world, inode, path, patience)
  const { daemon } = world
  const before = inode !== undefined && daemon?.holds(inode.key) === true
  world.noteKept()
  act()
  if (!inode) return false
  inode.content.renamed = true
  const paths = files.named().get(inode) ?? []
  if (paths.some(path => files.matches(path))) return true
  inode.content.away = true
  // While nothing runs, the next start settles it.
  if (!daemon?.running) return true
  // With few files open at a time it may have been closed in between, for a while.
  if (daemon.holds(inode.key) || (before && setup.openFiles === PLAIN.openFiles)) return true
  if (!new Saved(state).finds(inode.key, paths)) model.excuse(inode.content, 'not open when it went')
  return true
}

async function start(world: World, wait: boolean): Promise<boolean> {
  const before = world.daemon
  world.start()
  const { daemon } = world
  if (wait && daemon) await world.until('the start', () => daemon.started || !daemon.awake)
  return daemon !== before
}

/** What the daemon saved is not what it finds: it ends hard before, as in a power failure. */
async function damageFiles(world: World, { which, how, at }: Of<'damage'>): Promise<boolean> {
  await world.kill()
  world.noteKept()
  const [newest, before] = documentPaths(world.state)
  const { ledger, segments } = bufferFiles(world.state, DESTINATION)
  const segment = segments[Math.floor(segments.length * at)]
  const damaged = { newest: [newest], before: [before], both: [newest, before], ledger: [ledger], segment: [segment] }
  const done = damaged[which].filter(path => path !== undefined && damage(path, how, at))
  if (which === 'segment' && segment !== undefined) world.model.destroyed()
  world.clean = false
  return done.length > 0
}

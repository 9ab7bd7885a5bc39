import { cpSync, lstatSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { perform } from './actions.js'
import { Saved } from './saved.js'
import { PLAIN, type Scenario, type Step } from './scenario.js'
import { pause, type Surroundings, World } from './world.js'
import { Failure } from './written.js'

/** What happened in a run, or in many. */
export interface Counts {
  runs: number
  steps: number
  /** Steps for which there was nothing to do. */
  idle: number
  lines: number
  arrived: number
  repeated: number
  dead_letters: number
  requests: number
  starts: number
  kills: number
  ends: number
  freezes: number
  /** New files that got the inode of one before. */
  reused_inodes: number
  actions: Record<string, number>
  faults: Record<string, number>
  /** Lines that could be lost by nature, and were, by why. */
  lost: Record<string, number>
}

export interface Outcome {
  readonly failure: Failure | undefined
  readonly counts: Counts
  readonly ms: number
  /** What was done, step by step, and when. */
  readonly journal: string
}

/** Performs a scenario, and then brings everything in order and looks whether anything is missing. */
export async function run({ setup, steps, note }: Scenario, around: Surroundings): Promise<Outcome> {
  const began = performance.now()
  mkdirSync(around.folder, { recursive: true })
  const world = new World(setup, around)
  const journal: string[] = [note, JSON.stringify(setup)]
  const write = (what: unknown) => journal.push(`${(performance.now() - began).toFixed(0)} ${JSON.stringify(what)}`)
  const counts = emptyCounts()
  let failure: Failure | undefined
  try {
    await world.open()
    world.start()
    for (const step of steps) {
      write(step)
      const done = await perform(world, step)
      world.check()
      count(counts, step, done, world)
    }
    write('the end')
    await finish(world)
  } catch (error) {
    if (!(error instanceof Failure)) write({ error: String((error as Error).stack) })
    failure = error instanceof Failure ? error : new Failure('broken', String((error as Error).stack))
  }
  collect(counts, world)
  if (failure) {
    // A socket cannot be copied.
    const filter = (path: string) => !lstatSync(path).isSocket()
    cpSync(world.state, join(around.folder, 'state-at-the-end'), { recursive: true, filter })
  }
  await world.close()
  const ms = performance.now() - began
  if (failure) {
    journal.push(`${failure.kind}: ${failure.message}`)
    writeFileSync(join(around.folder, 'journal.txt'), journal.join('\n'))
    for (const [i, { logs, noise, code }] of world.daemons.entries()) {
      const text = logs.map(line => JSON.stringify(line)).join('\n')
      writeFileSync(join(around.folder, `daemon-${i + 1}.txt`), `${text}\n${noise}\nended with ${code}\n`)
    }
    writeFileSync(join(around.folder, 'arrivals.txt'), told(world))
  } else rmSync(around.folder, { recursive: true, force: true })
  return { failure, counts, ms, journal: journal.join('\n') }
}

/** All faults end; everything must arrive, be saved, and not come again. */
async function finish(world: World): Promise<void> {
  const { model, files } = world
  world.thaw()
  await world.heal(true)
  world.makeWritable()
  files.closeKept()
  world.start()
  for (const [inode, paths] of files.named()) {
    if (!paths.some(path => files.matches(path))) continue
    if (inode.content.torn > 0) files.append(inode, paths[0]!, { lines: 0, bytes: 0 })
    model.insist(inode.content)
  }
  const first = world.daemon!
  await world.until('the start', () => first.started)
  await world.taken()
  await allOpened(world)
  await world.saved()
  await balance(world)
  await world.term()
  if (!world.clean) throw new Failure('exit', 'something was left undelivered at the end')
  model.verify()
  checkSaved(world)

  const path = files.path(0)
  const inode = files.ensure(path)
  if (inode) files.append(inode, path, { lines: 1, bytes: 20 })
  world.start()
  await world.taken()
  await allOpened(world)
  await pause(50)
  await balance(world)
  await world.term()
  if (!world.clean) throw new Failure('exit', 'something was left undelivered after a last start')
  model.verify()
  checkSaved(world)
}

/** Every file was looked at: one whose lines came in an earlier life need not be yet. */
async function allOpened(world: World): Promise<void> {
  const { setup, files, daemon, model } = world
  if (setup.openFiles !== PLAIN.openFiles) return
  await world.until('all files to be opened', () =>
    files.matched().every(({ key, content }) => model.isBare(content) || daemon!.holds(key)),
  )
}

/** Every event is accounted for, and none is left inside. */
async function balance(world: World): Promise<void> {
  let off = ''
  for (const end = performance.now() + 10_000; performance.now() < end; await pause(20)) {
    const scrape = await world.scrape()
    off = scrape.sum('sluice_conservation_errors_total') > 0 ? 'the daemon says so' : ''
    for (const id of ['logs', 'all', 'out']) {
      const { received, sent, discarded, inFlight } = scrape.events(id)
      if (received !== sent + discarded + inFlight || inFlight !== 0)
        off = `${id}: ${received} received, ${sent} sent, ${discarded} discarded, ${inFlight} inside`
    }
    if (off === '') return
  }
  throw new Failure('balance', off)
}

/** After an end in order the checkpoint says that everything was delivered. */
function checkSaved(world: World): void {
  const saved = new Saved(world.state)
  for (const [{ key, content }, paths] of world.files.named()) {
    if (!paths.some(path => world.files.matches(path))) continue
    // One that is empty may not have been found yet.
    if (content.lines.every(({ line }) => world.model.isHeader(line))) continue
    const offset = saved.offset(key, paths[0]!)
    if (offset !== content.size)
      throw new Failure('checkpoint', `${paths[0]} (${content.id}) has ${content.size} bytes, saved is ${offset}`)
  }
}

export function emptyCounts(): Counts {
  return {
    runs: 0,
    steps: 0,
    idle: 0,
    lines: 0,
    arrived: 0,
    repeated: 0,
    dead_letters: 0,
    requests: 0,
    starts: 0,
    kills: 0,
    ends: 0,
    freezes: 0,
    reused_inodes: 0,
    actions: {},
    faults: {},
    lost: {},
  }
}

function count(counts: Counts, step: Step, done: boolean, world: World): void {
  counts.steps++
  if (!done) counts.idle++
  else counts.actions[nameOf(step)] = (counts.actions[nameOf(step)] ?? 0) + 1
  if (step.do === 'freeze' && world.daemon?.frozenAt !== undefined) counts.freezes++
}

function nameOf(step: Step): string {
  const { names, which, how, where, all, recreate, tear } = step as Record<string, unknown>
  const kind = names ?? (which && `${which} ${how}`) ?? where ?? (all && 'all') ?? (recreate && 'and create')
  return [step.do, kind || (tear ? 'torn' : undefined)].filter(Boolean).join(' ')
}

function collect(counts: Counts, { model, files, receiver, daemons }: World): void {
  counts.runs = 1
  counts.requests = receiver.requests
  counts.reused_inodes = files.reused
  counts.starts = daemons.length
  counts.kills = daemons.filter(({ told }) => told === 'SIGKILL').length
  counts.ends = daemons.filter(({ told }) => told === 'SIGTERM').length
  counts.faults = Object.fromEntries(receiver.faults)
  for (const line of model.lines.values()) {
    if (!line.whole || model.isHeader(line)) continue
    counts.lines++
    if (line.arrived) counts.arrived++
    else if (line.excused) {
      const why = line.placements[0]!.excused!
      counts.lost[why] = (counts.lost[why] ?? 0) + 1
    }
    if (!line.inPieces) counts.repeated += Math.max(0, line.takes.length - 1)
    if (line.deadLetters > 0) counts.dead_letters++
  }
  counts.lines += model.headersArrived
  counts.arrived += model.headersArrived
}

/** Which lines came with which request, and which are missing, for whoever looks into a failure. */
function told({ model }: World): string {
  const requests = model.arrivals.map(({ arrival: { life, clear }, parts }) => {
    const lines = parts.map(({ line, from, to }) =>
      to - from < line.text.length ? `${line.id}[${from},${to})` : line.id,
    )
    return `life ${life}${clear ? '' : ', unclear'}: ${lines.join(' ')}`
  })
  const missing = model.waiting().map(({ id, placements }) => {
    const places = placements.map(({ content, start }) => `${content.id}@${start}${content.gone ? ' truncated' : ''}`)
    return `missing ${id} ${places.join(' ')}`
  })
  return [...requests, ...missing, ''].join('\n')
}

import { existsSync, statSync } from 'node:fs'
import { link, open, readdir, rename, rm, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errorCode, errorText } from '../../../core/errors.js'
import { StateUnreadable } from '../../../core/unreadable.js'
import { syncFolder } from '../../../lib/files/atomic-file.js'
import { makeFolder } from '../../../lib/files/make-folder.js'
import { splitInput } from '../../config/inputs.js'
import type { ComponentConfig, Config } from '../../config/load.js'
import { PROCESSING_FAILED } from '../../flow/dispatch.js'
import { Engine, type Runtime } from '../engine.js'
import { DataDirError, lockDataDir } from '../state/data-dir.js'
import { inventory, pathOf } from '../state/inventory.js'
import { LettersProgress, lettersSource, type Survey, surveyLetters } from './letters.js'
import { cutTornRecord } from './queue.js'
import { doneIn, folderOf, forgetDone, mergingIn, recordsIn, SOURCE } from './stock.js'

/**
 * Resends the events of a dead-letter file. First moves the file to a folder beside it, so that a daemon can start a
 * new file. Until the destination accepts an event, the event is in the file, or it is in the folder and the recorded
 * progress has not passed it. An event that is rejected again is stored in the folder before the progress passes it.
 * This event returns to the file when the call ends. A crash may repeat events but does not lose any. After a crash,
 * the next call continues with the contents of the folder.
 */

export interface Resent {
  sent: number
  /** Events that were rejected again, by reason. These events are back in the file. */
  readonly refused: Map<string, number>
  /** Events that were not sent because the run ended first. The next call sends these events. */
  left: number
}

/** The file cannot be sent. Nothing was changed. */
export class ResendError extends Error {
  readonly code = 'SLUICE_RESEND'
}

export interface ResendContext {
  readonly config: Config
  /** The destination or processor to which the events belong. */
  readonly target: ComponentConfig
  /** Creates a runtime with its own counters for each run. */
  readonly newRuntime: () => Runtime
  /** Receives the running engine, which the caller may stop. */
  readonly running: (engine: Engine) => void
  /** Whether the caller has stopped. If so, no more work starts. */
  readonly stopped: () => boolean
}

/** Whether there are events of this file to send. */
export function isToSend(path: string): boolean {
  return isThere(path) || isThere(folderOf(path))
}

/** Whether a file exists. Throws ResendError if that is unknown, since an existing file must not count as missing. */
function isThere(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined
  } catch (error) {
    throw new ResendError(new StateUnreadable(path, error).message)
  }
}

/** Counts the events to send: in the file, and in the folder that an earlier call left. Changes nothing. */
export async function surveyFile(path: string): Promise<Survey> {
  const folder = folderOf(path)
  const surveys: Survey[] = []
  if (existsSync(recordsIn(folder))) surveys.push(await surveyLetters(recordsIn(folder), await readProgress(folder)))
  if (existsSync(path)) surveys.push(await surveyLetters(path))
  const sum: Survey = { events: 0, reasons: new Map(), wrongLine: surveys.at(-1)?.wrongLine }
  for (const { events, reasons } of surveys) {
    sum.events += events
    for (const [reason, n] of reasons) sum.reasons.set(reason, (sum.reasons.get(reason) ?? 0) + n)
  }
  return sum
}

/** Sends all events. Throws ResendError if it cannot start. */
export async function resendFile(path: string, context: ResendContext): Promise<Resent> {
  const folder = folderOf(path)
  const lock = await lockFolder(folder, path)
  const resent: Resent = { sent: 0, refused: new Map(), left: 0 }
  try {
    if (existsSync(recordsIn(folder))) await send(folder, context, resent)
    if (!existsSync(recordsIn(folder)) && existsSync(path) && !context.stopped()) {
      await forgetDone(folder)
      await rename(path, recordsIn(folder))
      await syncFolder(dirname(path))
      await checkRecords(folder, path)
      await send(folder, context, resent)
    }
  } finally {
    // An interrupted call may have left data of destinations that have another id now.
    const left = await inventory(folder, ['dead_letters', 'spool'])
    for (const id of new Set([...partFrom(context).destinations, ...left].map(({ id }) => id))) {
      await giveBackSpool(folder, context.config.dataDir, id)
      const scratch = join(folder, encodeURIComponent(id))
      const own = pathOf(context.config.dataDir, 'dead_letters', id)
      if (id !== context.target.id) await giveBack(own, folder, id, scratch)
    }
    await giveBack(path, folder, context.target.id)
    if (!existsSync(recordsIn(folder))) await rm(folder, { recursive: true, force: true })
    lock.release()
  }
  return resent
}

async function lockFolder(folder: string, path: string): Promise<{ release(): void }> {
  try {
    return await lockDataDir(folder)
  } catch (error) {
    if (!(error instanceof DataDirError)) throw error
    if (error.code !== 'SLUICE_DATA_DIR_IN_USE') throw new ResendError(errorText(error.cause ?? error))
    throw new ResendError(`${path} is being sent by another sluice resend`)
  }
}

/** If a line of the file is not a rejected event, moves the file back and throws. */
async function checkRecords(folder: string, path: string): Promise<void> {
  const { wrongLine } = await surveyLetters(recordsIn(folder))
  if (wrongLine === undefined) return
  await putBack(recordsIn(folder), path, folder)
  throw new ResendError(`${path}:${wrongLine}: is not a rejected event; no event of this file was sent`)
}

/** Sends the records in the folder, and removes them when all are settled. */
async function send(folder: string, context: ResendContext, resent: Resent): Promise<void> {
  const { config, target, newRuntime } = context
  const records = recordsIn(folder)
  const runtime = newRuntime()
  const from = await readProgress(folder)
  const { events } = await surveyLetters(records, from)
  if (events === 0) return await unlink(records)
  const progress = new LettersProgress(from)
  const engine = await Engine.build(
    {
      ...config,
      dataDir: folder,
      sources: [
        {
          id: SOURCE,
          kind: 'source',
          type: SOURCE,
          inputs: [],
          options: {},
          definition: lettersSource(records, progress),
        },
      ],
      ...partFrom(context),
    },
    runtime,
  )
  context.running(engine)
  await engine.run()
  const { discards } = runtime.metrics.components.get(target.id)!
  resent.sent += progress.events
  for (const [reason, { events }] of discards) {
    // Events that a processor discards return to the file only if their processing failed.
    if (target.kind === 'processor' && reason !== PROCESSING_FAILED) continue
    resent.refused.set(reason, (resent.refused.get(reason) ?? 0) + events)
    resent.sent -= events
  }
  resent.left += events - progress.events
  if (progress.events === events) await unlink(records)
}

/**
 * The target and all components downstream of it, with changed options, so that events that fail or are rejected are
 * always kept.
 */
function partFrom({ config, target }: ResendContext): Pick<Config, 'processors' | 'destinations'> {
  const all = [...config.processors, ...config.destinations]
  const reached = new Set([target.id])
  const isReached = (input: string) => reached.has(splitInput(input)[0])
  for (let size = 0; size !== reached.size; ) {
    size = reached.size
    for (const { id, inputs } of all) if (inputs.some(isReached)) reached.add(id)
  }
  const inputsOf = ({ id, inputs }: ComponentConfig) => (id === target.id ? [SOURCE] : inputs.filter(isReached))
  return {
    processors: config.processors
      .filter(({ id }) => reached.has(id))
      .map(one => ({ ...one, inputs: inputsOf(one), ...(one.id === target.id ? { onError: 'dead_letter' } : {}) })),
    destinations: config.destinations
      .filter(({ id }) => reached.has(id))
      .map(one => ({
        ...one,
        inputs: inputsOf(one),
        delivery: { ...one.delivery!, buffer: { type: 'memory' }, on_reject: 'dead_letter' },
      })),
  }
}

/** The offset before which all records are settled. */
async function readProgress(folder: string): Promise<number> {
  try {
    return await doneIn(folder)
  } catch (error) {
    throw new ResendError(`no event was sent, because it is unknown which events were sent before: ${errorText(error)}`)
  }
}

/** Moves objects of a stopped run into the destination's spool, which has no objects with these names. */
async function giveBackSpool(folder: string, dataDir: string, id: string): Promise<void> {
  const [from, to] = [folder, dataDir].map(dir => pathOf(dir, 'spool', id)) as [string, string]
  const names = (await readdir(from).catch(ignoreMissing)) ?? []
  if (names.length === 0) return
  await makeFolder(to, 0o700)
  for (const name of names) await rename(join(from, name), join(to, name))
  await syncFolder(to)
}

/** Returns events to the dead-letter file if they were rejected again. */
async function giveBack(path: string, folder: string, id: string, scratch = folder): Promise<void> {
  const refused = pathOf(folder, 'dead_letters', id)
  // An interrupted call may have left a file that is not merged yet.
  if (existsSync(mergingIn(scratch))) await merge(refused, scratch)
  if (!existsSync(refused)) return
  const file = await open(refused, 'r+')
  await cutTornRecord(file).finally(() => file.close())
  await makeFolder(scratch, 0o700)
  await makeFolder(dirname(path), 0o700)
  await putBack(refused, path, scratch)
}

/**
 * Renames the file `from` to `path`. If a daemon has created a file at `path`, first appends the events of that file to
 * `from`.
 */
async function putBack(from: string, path: string, folder: string): Promise<void> {
  for (;;) {
    try {
      // Unlike rename, link does not overwrite an existing file.
      await link(from, path)
      break
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error
    }
    await rename(path, mergingIn(folder)).catch(ignoreMissing)
    await merge(from, folder)
  }
  await syncFolder(dirname(path))
  await unlink(from)
}

/** Appends the file `mergingIn(folder)` to the file `into`. Cuts off the incomplete last records of both files. */
async function merge(into: string, folder: string): Promise<void> {
  await makeFolder(dirname(into), 0o700)
  const [to, from] = await Promise.all([open(into, 'a+', 0o600), open(mergingIn(folder), 'r+').catch(ignoreMissing)])
  try {
    if (!from) return
    await cutTornRecord(to)
    await cutTornRecord(from)
    const pieces: AsyncIterable<Buffer> = from.createReadStream({ start: 0, autoClose: false })
    for await (const piece of pieces) await to.appendFile(piece)
    await to.sync()
  } finally {
    await to.close()
    await from?.close()
  }
  await syncFolder(dirname(into))
  await unlink(mergingIn(folder))
}

function ignoreMissing(error: unknown): undefined {
  if (errorCode(error) !== 'ENOENT') throw error
}

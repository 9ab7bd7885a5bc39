import { existsSync, statSync } from 'node:fs'
import { link, open, readFile, rename, rm, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ComponentConfig, Config } from '../../config/load.js'
import { splitInput } from '../../config/yaml/input.js'
import { errorCode, errorText } from '../../core/errors.js'
import { readState, StateUnreadable } from '../../core/unreadable.js'
import { PROCESSING_FAILED } from '../../flow/decided.js'
import { syncFolder, writeAtomic } from '../../lib/files/atomic-file.js'
import { makeFolder } from '../../lib/files/make-folder.js'
import { cutTornRecord, deadLetterPath } from '../dead-letter.js'
import { Engine, type Runtime } from '../engine.js'
import { DataDirError, lockDataDir } from '../state/data-dir.js'
import { LettersProgress, lettersSource, type Survey, surveyLetters } from './letters.js'
import { doneIn, folderOf, mergingIn, progressIn, recordsIn } from './places.js'

/**
 * Sends the events of a dead letter file again. The file is taken out of the way first, into a folder beside it, so
 * that a daemon may go on to write a new one. Invariants: an event is in the file, or in the folder and not before the
 * progress noted there, until the destination has taken it; what it refuses again is safe in the folder before the
 * progress passes it, and goes back to the file at the end. A crash repeats, and loses nothing: the next call goes on
 * with what is in the folder.
 */

const SAVE_EVERY_MS = 1000
const COPY_SIZE = 1024 * 1024
const SOURCE = 'dead_letters'

/** What became of the events of one file. */
export interface Resent {
  sent: number
  /** Refused again, by reason. They are back in the file. */
  readonly refused: Map<string, number>
  /** Not sent: the end came before. The next call sends them. */
  left: number
}

/** The file cannot be sent; nothing was done. */
export class ResendError extends Error {
  readonly code = 'SLUICE_RESEND'
}

export interface ResendContext {
  readonly config: Config
  /** The destination or the processor whose events these are. */
  readonly target: ComponentConfig
  /** Made for each run, so that each counts for itself. */
  readonly newRuntime: () => Runtime
  /** Called with what runs now, to stop it later. */
  readonly running: (engine: Engine) => void
  /** Whether nothing more is to be begun. */
  readonly stopped: () => boolean
}

/** Whether there is anything of this file to send. */
export function isToSend(path: string): boolean {
  return isThere(path) || isThere(folderOf(path))
}

/** Throws ResendError when that cannot be seen: what is there must not be taken for missing. */
function isThere(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined
  } catch (error) {
    throw new ResendError(new StateUnreadable(path, error).message)
  }
}

/** What is there to send, in the file and in what an earlier call left; changes nothing. */
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

/** Sends all of it; throws ResendError when that cannot be begun. */
export async function resendFile(path: string, context: ResendContext): Promise<Resent> {
  const folder = folderOf(path)
  const lock = lockFolder(folder, path)
  const resent: Resent = { sent: 0, refused: new Map(), left: 0 }
  try {
    if (existsSync(recordsIn(folder))) await send(folder, context, resent)
    if (!existsSync(recordsIn(folder)) && existsSync(path) && !context.stopped()) {
      await rename(path, recordsIn(folder))
      await syncFolder(dirname(path))
      await checkRecords(folder, path)
      await send(folder, context, resent)
    }
  } finally {
    for (const { id } of partFrom(context).destinations) {
      const scratch = join(folder, encodeURIComponent(id))
      if (id !== context.target.id) await giveBack(deadLetterPath(context.config.dataDir, id), folder, id, scratch)
    }
    await giveBack(path, folder, context.target.id)
    if (existsSync(recordsIn(folder))) lock.release()
    else await rm(folder, { recursive: true, force: true })
  }
  return resent
}

function lockFolder(folder: string, path: string): { release(): void } {
  try {
    return lockDataDir(folder)
  } catch (error) {
    if (!(error instanceof DataDirError)) throw error
    if (error.code !== 'SLUICE_DATA_DIR_IN_USE') throw new ResendError(errorText(error.cause ?? error))
    throw new ResendError(`${path} is being sent by another sluice resend`)
  }
}

/** Puts the file back where it came from when not all of it is dead letters. */
async function checkRecords(folder: string, path: string): Promise<void> {
  const { wrongLine } = await surveyLetters(recordsIn(folder))
  if (wrongLine === undefined) return
  await putBack(recordsIn(folder), path, folder)
  throw new ResendError(`${path}:${wrongLine}: is no dead letter; nothing of this file was sent`)
}

/** Sends the records in the folder; takes them away when all are settled. */
async function send(folder: string, context: ResendContext, resent: Resent): Promise<void> {
  const { config, target, newRuntime } = context
  const records = recordsIn(folder)
  const runtime = newRuntime()
  const from = await readProgress(folder, file =>
    runtime.log.error({ file }, 'the progress of an earlier resend is damaged; all of its events are sent again'),
  )
  const { events } = await surveyLetters(records, from)
  if (events === 0) return await remove(folder)
  let saving = Promise.resolve()
  let savedAt = runtime.clock.now()
  const save = () => {
    savedAt = runtime.clock.now()
    saving = saving
      .then(() => writeAtomic(progressIn(folder), JSON.stringify({ done: progress.done })))
      .catch(error => runtime.log.warn({ error: errorText(error) }, 'the progress cannot be noted; a crash repeats it'))
  }
  const progress = new LettersProgress(from, () => {
    if (runtime.clock.now() - savedAt >= SAVE_EVERY_MS) save()
  })
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
  save()
  await saving
  const { discards } = runtime.metrics.components.get(target.id)!
  resent.sent += progress.events
  for (const [reason, { events }] of discards) {
    // What a processor discards otherwise is not kept.
    if (target.kind === 'processor' && reason !== PROCESSING_FAILED) continue
    resent.refused.set(reason, (resent.refused.get(reason) ?? 0) + events)
    resent.sent -= events
  }
  resent.left += events - progress.events
  if (progress.events === events) await remove(folder)
}

/** The target and everything behind it. What cannot be processed or is refused is kept in any case. */
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

/** All records of the folder are settled. */
async function remove(folder: string): Promise<void> {
  await unlink(recordsIn(folder))
  await unlink(progressIn(folder)).catch(ignoreMissing)
}

/** Bytes of the records before which all was settled. `damaged` is called for a file that does not say it. */
async function readProgress(folder: string, damaged: (file: string) => void = () => {}): Promise<number> {
  const path = progressIn(folder)
  const text = await readState(path, path => readFile(path, 'utf8')).catch(error => {
    throw new ResendError(`nothing was sent, because part of it may have been sent before: ${errorText(error)}`)
  })
  const { size } = await stat(recordsIn(folder))
  const done = text === undefined ? 0 : doneIn(text)
  if (done !== undefined && done <= size) return done
  damaged(path)
  return 0
}

/** Brings what was refused again back to the file. */
async function giveBack(path: string, folder: string, id: string, scratch = folder): Promise<void> {
  const refused = deadLetterPath(folder, id)
  // A call that ended in the middle of this may have left a file here.
  if (existsSync(mergingIn(scratch))) await merge(refused, scratch)
  if (!existsSync(refused)) return
  const file = await open(refused, 'r+')
  await cutTornRecord(file).finally(() => file.close())
  await makeFolder(scratch, 0o700)
  await makeFolder(dirname(path), 0o700)
  await putBack(refused, path, scratch)
}

/** Gives the file `from` the name `path`, in front of what a daemon may have written there meanwhile. */
async function putBack(from: string, path: string, folder: string): Promise<void> {
  for (;;) {
    try {
      // Unlike a rename it fails where there is a file: nothing is written over.
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

/** Puts what is being merged at the end of `into`; of both as far as the records are whole. */
async function merge(into: string, folder: string): Promise<void> {
  await makeFolder(dirname(into), 0o700)
  const [to, from] = await Promise.all([open(into, 'a+', 0o600), open(mergingIn(folder), 'r+').catch(ignoreMissing)])
  try {
    if (!from) return
    await cutTornRecord(to)
    await cutTornRecord(from)
    const piece = Buffer.allocUnsafe(COPY_SIZE)
    for (let at = 0, bytesRead = 1; bytesRead > 0; at += bytesRead) {
      bytesRead = (await from.read(piece, 0, piece.length, at)).bytesRead
      await to.appendFile(piece.subarray(0, bytesRead))
    }
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

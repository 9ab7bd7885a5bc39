import { type ChildProcess, spawn } from 'node:child_process'
import { PassThrough, type Readable } from 'node:stream'
import split2 from 'split2'
import { errorCode, errorText } from '../../core/errors.js'
import { untilReadable } from '../../lib/files/until-readable.js'
import { deadline, sleep } from '../../lib/time.js'
import { EntryReader } from './entries.js'
import { cursorOf } from './fields.js'

const PROGRAM = 'journalctl'
/** With these options, journalctl writes complete fields as JSON, and nothing but entries. */
const JSON_OUTPUT = ['--output=json', '--all', '--no-pager']
/** Lines of journalctl's standard error that are longer than this are skipped or truncated. */
const COMPLAINTS = { maxLength: 500, skipOverflow: true }
const END_MS = 2000
const FIRST_MS = 30_000

/**
 * A running journalctl. Its output is read only as fast as entries are passed on, and journalctl waits for the reader.
 * When the output is closed, journalctl ends, so journalctl does not outlive this process.
 */
export class Journalctl {
  readonly stdout: Readable
  /** Resolves when journalctl ended and its output was read. `why`: how it ended. `fine`: if the exit code was 0. */
  readonly ended: Promise<{ readonly why: string; readonly fine: boolean }>
  readonly #child: ChildProcess
  readonly #exited: Promise<void>
  #lastComplaint = ''

  constructor(args: readonly string[], complain: (line: string) => void) {
    const child = spawn(PROGRAM, [...JSON_OUTPUT, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      // Other variables are not passed on, because they may contain keys, or the socket of the service manager.
      env: { PATH: process.env.PATH, SYSTEMD_COLORS: '0' },
    })
    this.#child = child
    // If too many files are open, the child has no output streams.
    this.stdout = child.stdout ?? new PassThrough().destroy()
    let failure: Error | undefined
    child.on('error', error => {
      failure = error
    })
    child.stderr?.pipe(split2(COMPLAINTS)).on('data', (line: string) => {
      const text = line.slice(0, COMPLAINTS.maxLength).trim()
      if (text === '') return
      this.#lastComplaint = text
      complain(text)
    })
    this.ended = new Promise(resolve => {
      child.once('close', (code, signal) => resolve({ why: this.#why(failure, code, signal), fine: code === 0 }))
    })
    this.#exited = new Promise(resolve => {
      child.once('exit', () => resolve())
      child.once('error', () => resolve())
    })
  }

  #why(failure: Error | undefined, code: number | null, signal: string | null): string {
    if (errorCode(failure) === 'ENOENT') return `${PROGRAM} is not in the PATH`
    if (failure) return `${PROGRAM} cannot be run: ${errorText(failure)}`
    const how = `${PROGRAM} ended ${signal ? `by ${signal}` : `with exit code ${code}`}`
    return this.#lastComplaint ? `${this.#lastComplaint}; ${how}` : how
  }

  async end(): Promise<void> {
    this.stdout.destroy()
    this.#child.stderr?.destroy()
    this.#child.kill('SIGTERM')
    const over = new AbortController()
    void sleep(END_MS, over.signal).then(() => over.signal.aborted || this.#child.kill('SIGKILL'))
    await this.#exited
    over.abort()
  }
}

/**
 * Runs journalctl with these arguments, and returns the cursor of the first entry, or undefined if journalctl writes no
 * entry. If journalctl fails, throws its error message.
 */
export async function firstCursor(args: readonly string[], signal: AbortSignal): Promise<string | undefined> {
  const child = new Journalctl([...args, '--output-fields=PRIORITY'], () => {})
  const limit = deadline(FIRST_MS, signal)
  const reader = new EntryReader(64 * 1024)
  try {
    for (;;) {
      const chunk = child.stdout.read() as Buffer | null
      const [first] = chunk ? reader.push(chunk) : []
      if (first) return cursorOf(first.entry)
      if (chunk) continue
      limit.signal.throwIfAborted()
      if (child.stdout.readableEnded || child.stdout.destroyed) break
      await untilReadable(child.stdout, limit.signal)
    }
    const { why, fine } = await child.ended
    if (fine) return undefined
    throw new Error(why)
  } finally {
    limit.clear()
    reader.drop()
    await child.end()
  }
}

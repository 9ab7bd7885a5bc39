import { mkdtempSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Io } from '../../../daemon/process/command-line.js'
import { systemClock } from '../../../lib/time.js'
import { Progress } from '../../screen/progress.js'
import { type Input, replayed } from './input.js'
import { bytesOf, totalSize } from './input-bytes.js'
import type { Frames } from './replay.js'

/** Reads the inputs of a simulation, several times if needed, and shows the progress. */
export class InputReader {
  readonly #io: Io
  readonly #signal: AbortSignal
  #inputs: readonly Input[]
  /** The folder of the copy of standard input. */
  #folder: string | undefined

  /** The signal ends the input early. */
  constructor(inputs: readonly Input[], io: Io, signal: AbortSignal) {
    this.#inputs = inputs
    this.#io = io
    this.#signal = signal
  }

  /** Copies standard input, if it is an input, to a file that only this user can read. `close` removes it. */
  async copyStdin(): Promise<void> {
    if (!this.#inputs.some(({ path }) => path === '-')) return
    this.#folder = mkdtempSync(join(tmpdir(), 'sluice-simulate-'))
    const copy = join(this.#folder, 'input')
    const file = await open(copy, 'wx', 0o600)
    const progress = this.#progress(totalSize(['-']))
    try {
      for await (const bytes of bytesOf('-', { io: this.#io, progress, signal: this.#signal }))
        await file.writeFile(bytes)
    } finally {
      progress.end()
      await file.close()
    }
    this.#inputs = this.#inputs.map(input => (input.path === '-' ? { ...input, copy } : input))
  }

  /** Replays all inputs. `afterPiece` is awaited after each piece. */
  async read(frames: Frames, afterPiece = async () => {}): Promise<void> {
    const progress = this.#progress(totalSize(this.#inputs.map(({ path, copy }) => copy ?? path)))
    try {
      await frames.start(this.#signal)
      for (const input of this.#inputs) {
        const reading = { io: this.#io, progress, signal: this.#signal }
        for await (const _ of replayed(frames, input, reading)) await afterPiece()
      }
    } finally {
      progress.end()
      await frames.stop()
    }
  }

  #progress(total: number | undefined): Progress {
    return new Progress(this.#io.stderr, total, () => systemClock.now())
  }

  close(): void {
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true })
  }
}

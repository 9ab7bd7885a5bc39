import type { Output, Source, SourceContext } from '../../core/component.js'
import { NewerFormat, StateUnreadable } from '../../core/unreadable.js'
import { Backoff, type Random } from '../../lib/backoff.js'
import { sleep } from '../../lib/time.js'

const RETRY_FIRST_MS = 500
const RETRY_MAX_MS = 10_000

type Context = Pick<SourceContext, 'log' | 'metrics' | 'checkpoints'>

/** Creates the source. If its saved positions cannot be read, creates one that waits for them. */
export async function createOrHold(create: () => Promise<Source>, context: Context, random: Random): Promise<Source> {
  try {
    return await create()
  } catch (error) {
    return new HeldSource(create, unreadable(error, context), context, random)
  }
}

/** Throws any error with another cause. */
function unreadable(error: unknown, { checkpoints }: Context): StateUnreadable {
  if (error instanceof NewerFormat && checkpoints.file !== undefined)
    return new StateUnreadable(checkpoints.file, error)
  if (error instanceof StateUnreadable) return error
  throw error
}

/**
 * A source whose saved positions cannot be read. It reads no events, because without its positions it would read all of
 * them again. It retries until the positions can be read, and then behaves as an ordinary source.
 */
class HeldSource implements Source {
  readonly #create: () => Promise<Source>
  readonly #context: Context
  readonly #backoff: Backoff
  #source: Source | undefined
  #reason = ''

  constructor(create: () => Promise<Source>, why: StateUnreadable, context: Context, random: Random) {
    this.#create = create
    this.#context = context
    this.#backoff = new Backoff(RETRY_FIRST_MS, RETRY_MAX_MS, random)
    this.#report(why)
  }

  get heldBy(): string | undefined {
    return this.#source ? undefined : this.#reason
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    while (!this.#source) {
      await sleep(RETRY_FIRST_MS + this.#backoff.next(), signal)
      if (signal.aborted) return
      await this.#try()
    }
    await this.#source.start?.(signal)
    await this.#source.run(out, signal)
  }

  async #try(): Promise<void> {
    try {
      this.#source = await this.#create()
      this.#context.log.info('saved positions can be read again; starting the source')
    } catch (error) {
      this.#report(unreadable(error, this.#context))
    }
  }

  #report({ message, code, file }: StateUnreadable): void {
    const { log, metrics } = this.#context
    metrics.failed('checkpoint')
    if (this.#reason === message) return
    this.#reason = message
    log.error({ code, file, error: message }, 'cannot read the saved positions; the source waits and retries')
  }

  async stop(deadline: AbortSignal): Promise<void> {
    await this.#source?.stop?.(deadline)
  }
}

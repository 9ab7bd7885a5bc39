import { loadCodecs } from '../../core/codec.js'
import { outputNames } from '../../core/processor.js'
import type { FanOut, Tap } from '../../flow/fan-out.js'
import { shareOf } from '../../flow/source-output.js'
import type { Watched } from '../measure/progress.js'
import { isOnlyCopied } from '../only-copied.js'
import type { EngineConfig } from '../runtime.js'
import type { SourceFailure } from '../source-run.js'
import { Chain, type ChainEnvironment } from './chain.js'
import { type Part, planParts, threadsBy } from './plan.js'

/** The parts of a topology that run on worker threads. The threads stay while one engine replaces another. */
export class Chains {
  readonly #environment: ChainEnvironment
  readonly #chains: Chain[] = []
  #parts: readonly Part[] = []
  #threads: ReadonlyMap<string, number> = new Map()

  constructor(environment: ChainEnvironment) {
    this.#environment = environment
  }

  /** Decides what runs on the threads. `stays` names components that must not move. */
  plan(config: EngineConfig, stays: (id: string) => boolean): void {
    const { checkpoints } = this.#environment
    const unreadable = (id: string) => {
      try {
        checkpoints.forSource(id).read()
        return false
      } catch {
        return true
      }
    }
    const isSource = new Set(config.sources.map(({ id }) => id))
    this.#parts = planParts(config, id => stays(id) || (isSource.has(id) && !this.keeps(id) && unreadable(id)))
    this.#threads = threadsBy(this.#parts)
  }

  /** Whether a component runs on a worker thread. */
  has(id: string): boolean {
    return this.#threads.has(id)
  }

  /** Builds what was planned; throws if a part cannot be built. */
  async build({ sources, processors, destinations, dataDir, shutdownTimeoutMs }: EngineConfig): Promise<void> {
    const ids = <T extends { id: string; inputs: readonly string[] }>(all: readonly T[]) =>
      all.map(({ id, inputs }) => ({ id, inputs }))
    const graph = { sources: ids(sources), processors: ids(processors), destinations: ids(destinations) }
    const onlyCopied = { isOnlyCopied: isOnlyCopied({ processors, destinations }) }
    const settings = { graph, ...onlyCopied, dataDir, shutdownTimeoutMs, share: shareOf(sources.length) }
    // The threads have codecs of their own. Those here tell a reload whether their files have changed since.
    for (const { options, reach } of this.#parts.flatMap(part => part.sources)) loadCodecs(options as object, reach)
    while (this.#chains.length < this.#parts.length)
      this.#chains.push(new Chain(this.#chains.length + 1, this.#environment))
    const built = await Promise.allSettled(this.#parts.map((part, i) => this.#chains[i]!.build(part, settings)))
    const failed = built.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
    if (!failed) return
    for (const [i, { status }] of built.entries()) if (status === 'fulfilled') this.#chains[i]!.undo()
    throw failed.reason
  }

  /** The parts that can get stuck. */
  watched(): Watched[] {
    return this.#running.flatMap(chain => chain.watched())
  }

  get #running(): readonly Chain[] {
    return this.#chains.slice(0, this.#parts.length)
  }

  /** Runs the parts until all of them have ended. `fanOut` returns what an output of theirs leads to. */
  async run(fanOut: (output: string) => FanOut): Promise<void> {
    for (const chain of this.#chains.splice(this.#parts.length)) chain.close()
    await Promise.all(
      this.#parts.map(({ exits }, i) => this.#chains[i]!.run(new Map(exits.map(output => [output, fanOut(output)])))),
    )
  }

  stop(): void {
    for (const chain of this.#running) chain.stop()
  }

  /** Ends the run for a replacement by `next`. `same`: components that have a successor with the same options. */
  leave(same: ReadonlySet<string>, next: EngineConfig): void {
    const later = threadsBy(planParts(next))
    for (const [i, { sources, processors }] of this.#parts.entries()) {
      const gone = [...sources, ...processors].flatMap(({ id }) => (later.get(id) === i ? [] : [id]))
      this.#chains[i]!.leave(new Set([...same].filter(id => !gone.includes(id))), gone)
    }
  }

  abort(): void {
    for (const chain of this.#running) chain.abort()
  }

  close(): void {
    for (const chain of this.#chains.splice(0)) chain.close()
  }

  /** Whether the source goes on after `leave`. */
  keeps(source: string): boolean {
    return this.#chains.some(chain => chain.keeps(source))
  }

  get repeats(): boolean {
    return this.#running.some(({ repeats }) => repeats)
  }

  failures(): SourceFailure[] {
    return this.#running.flatMap(chain => chain.failures)
  }

  /** Events on their way between components, or between threads. */
  between(): number {
    return this.#running.reduce((sum, chain) => sum + chain.between, 0)
  }

  /** The names that can be tapped. */
  outputs(): string[] {
    return this.#parts.flatMap(({ sources, processors }) => [
      ...sources.map(({ id }) => id),
      ...processors.flatMap(({ id, plan = {}, onError = 'pass' }) => [
        ...(plan.main === undefined ? [id] : []),
        ...outputNames(plan, onError).map(name => `${id}.${name}`),
      ]),
    ])
  }

  tap(output: string, tap: Tap): (() => void) | undefined {
    const thread = this.#threads.get(output.split('.', 1)[0]!)
    if (thread === undefined || !this.outputs().includes(output)) return undefined
    return this.#chains[thread]!.tap(output, tap)
  }
}

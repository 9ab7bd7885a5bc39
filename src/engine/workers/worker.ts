import { PassThrough } from 'node:stream'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { components } from '../../components.js'
import type { AnyDefinition } from '../../core/component.js'
import { errorText } from '../../core/errors.js'
import { ComponentSet } from '../../flow/counters.js'
import { encodeBatch } from '../../flow/disk-buffer/batch-record.js'
import { systemRandom } from '../../lib/backoff.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import { systemClock } from '../../lib/time.js'
import { Engine } from '../engine.js'
import { HandoverStates } from '../handover-states.js'
import { snapshotOf } from '../measure/counter-snapshot.js'
import { OwnOutputs } from '../own-outputs.js'
import type { EngineConfig, EngineHandover, Runtime } from '../runtime.js'
import { Exit } from './exit.js'
import type { ComponentData, FromWorker, Look, PartData, ThreadData, ToWorker } from './messages.js'
import { RemoteCheckpoints } from './remote-checkpoints.js'
import { remoteLog } from './remote-log.js'
import { Rooms } from './rooms.js'

/** The program of a worker thread: an engine over a part of the topology, whose outputs lead to the main thread. */
class WorkerEngine {
  readonly #port: MessagePort
  readonly #runtime: Runtime
  readonly #rooms = new Rooms()
  readonly #checkpoints: RemoteCheckpoints
  readonly #metrics = new ComponentSet()
  readonly #outputs = new OwnOutputs()
  /** Ends of files that destinations on the main thread write to, by number. */
  readonly #written = new Map<number, () => void>()
  readonly #taps = new Map<string, { readonly remove: () => void; underWay: number }>()
  #handover: EngineHandover
  #part: PartData | undefined
  #engine: Engine | undefined
  #exits = new Map<string, Exit>()
  /** Components that will not be here after the run. */
  #gone: readonly string[] = []

  constructor(port: MessagePort, { logLevel }: ThreadData) {
    this.#port = port
    const post = (message: FromWorker) => this.#post(message)
    this.#checkpoints = new RemoteCheckpoints(post, systemClock)
    this.#runtime = {
      log: remoteLog(logLevel, post),
      clock: systemClock,
      random: systemRandom,
      metrics: this.#metrics,
      stdin: new PassThrough().end(),
      stdout: new PassThrough().resume(),
      env: {},
      exit: name => this.#exit(name),
    }
    this.#handover = {
      checkpoints: this.#checkpoints,
      wanted: new WantedNames(),
      outputs: this.#outputs,
      sources: new Map(),
      handoverStates: new HandoverStates(),
      outages: new Map(),
    }
  }

  #post(message: FromWorker, transfer: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transfer)
  }

  receive(message: ToWorker): void {
    switch (message.type) {
      case 'build':
        void this.#build(message.part)
        break
      case 'undo':
        void this.#engine?.undo()
        break
      case 'run':
        void this.#run(this.#engine!)
        break
      case 'leave':
        this.#gone = message.gone
        this.#engine!.leave(message.same, () => false, never())
        break
      case 'stop':
        this.#engine!.stop(never())
        break
      case 'abort':
        this.#engine!.abort()
        break
      case 'accepted':
        for (const room of message.rooms) this.#rooms.give(room)
        for (const [exit, number, bytes] of message.shrunk) this.#exits.get(exit)?.shrunk(number, bytes)
        for (const [exit, number, status] of message.settled) this.#exits.get(exit)?.settle(number, status)
        for (const exit of message.taken) this.#exits.get(exit)?.taken()
        break
      case 'look':
        this.#checkpoints.saved(message.savedAt)
        this.#post({ type: 'look', look: this.#look() })
        break
      case 'flushed':
        this.#checkpoints.flushed(message.id, message.error)
        break
      case 'tap':
        this.#tap(message.output, message.on)
        break
      case 'tapped': {
        const tap = this.#taps.get(message.output)
        if (tap) tap.underWay--
        break
      }
      case 'writes':
        this.#written.set(message.id, this.#outputs.writes(message.destination, message.file))
        break
      case 'wrote':
        this.#written.get(message.id)?.()
        this.#written.delete(message.id)
    }
  }

  #exit(name: string): Exit {
    const exit = new Exit(name, this.#rooms, (message, transfer) => this.#post(message, transfer))
    this.#exits.set(name, exit)
    return exit
  }

  async #build(part: PartData): Promise<void> {
    try {
      this.#exits = new Map()
      this.#taps.clear()
      this.#checkpoints.begin(part.positions)
      this.#engine = await Engine.build(configOf(part), { ...this.#runtime, share: part.share }, this.#handover)
      this.#outputs.connect(part.graph)
      this.#part = part
      this.#post({ type: 'built' })
    } catch (error) {
      this.#post({ type: 'failed', error: errorText(error) })
    }
  }

  async #run(engine: Engine): Promise<void> {
    this.#gone = []
    let failure: string | undefined
    try {
      await engine.run()
      this.#handover = engine.handover()
      for (const id of this.#gone) this.#metrics.components.get(id)?.abandon()
    } catch (error) {
      failure = errorText(error)
    }
    this.#post({ type: 'ended', look: this.#look(), error: failure })
  }

  #look(): Look {
    const { sources = [], processors = [] } = this.#part ?? {}
    const counters = [...sources, ...processors].map(({ id, kind, type }) => this.#metrics.component(id, kind, type))
    const engine = this.#engine!
    return {
      counters: counters.map(snapshotOf),
      between: engine.between(),
      left: [...this.#exits.values()].reduce((sum, { events }) => sum + events, 0),
      failures: engine.failures(),
      repeats: engine.repeats(),
      owes: engine.watched.filter(one => one.owes()).map(({ id }) => id),
    }
  }

  /** Sends copies of the batches of an output; skips some if the main thread cannot keep up. */
  #tap(output: string, on: boolean): void {
    this.#taps.get(output)?.remove()
    this.#taps.delete(output)
    if (!on) return
    // While the first engine is being built there is none; when it runs, it is asked again.
    const remove = this.#engine?.taps.tap(output, batch => {
      const tap = this.#taps.get(output)
      if (!tap || tap.underWay >= MOST_TAPPED) return
      tap.underWay++
      const record = encodeBatch(batch).buffer as ArrayBuffer
      this.#post({ type: 'tapped', output, record }, [record])
    })
    if (remove) this.#taps.set(output, { remove, underWay: 0 })
  }
}

/** The main thread says by itself when time is over. */
const never = () => new AbortController().signal

/** Copies of batches that are on their way to those who tap an output. */
const MOST_TAPPED = 8

function configOf({ sources, processors, exits, isOnlyCopied, dataDir, shutdownTimeoutMs }: PartData): EngineConfig {
  const parsed = (one: ComponentData) => {
    const definition = components.find(({ kind, type }) => kind === one.kind && type === one.type)! as AnyDefinition
    const options = definition.options.parse(one.given)
    const plan = one.kind === 'processor' ? { plan: definition.plan?.(options) ?? {}, onError: one.onError } : {}
    return { ...one, definition, options, ...plan }
  }
  return {
    sources: sources.map(parsed) as unknown as EngineConfig['sources'],
    processors: processors.map(parsed) as unknown as EngineConfig['processors'],
    destinations: [],
    exits,
    isOnlyCopied,
    dataDir,
    shutdownTimeoutMs,
  }
}

if (parentPort) {
  const worker = new WorkerEngine(parentPort, workerData as ThreadData)
  parentPort.on('message', (message: ToWorker) => worker.receive(message))
}

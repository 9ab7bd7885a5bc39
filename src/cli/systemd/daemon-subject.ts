import type { Logger } from 'pino'
import { ProgressWatch, type Stage } from '../../engine/progress.js'
import type { DestinationState } from '../../engine/surroundings.js'
import { daemonState, type ServiceState } from './service-state.js'
import { LOOKS, type Subject } from './systemd.js'

/** A daemon, as systemd wants to know it. */
export class DaemonSubject implements Subject {
  /** Why the configuration that was read last does not run. */
  refused: string | undefined
  readonly #pipeline: { states(): DestinationState[]; readonly stages: readonly Stage[] }
  readonly #log: Logger
  readonly #progress = new ProgressWatch(LOOKS)
  #stuck: readonly string[] = []

  constructor(pipeline: { states(): DestinationState[]; readonly stages: readonly Stage[] }, log: Logger) {
    this.#pipeline = pipeline
    this.#log = log
  }

  state(): ServiceState {
    return daemonState({ destinations: this.#pipeline.states(), refused: this.refused, stuck: this.#stuck })
  }

  goesOn(): boolean {
    const stuck = this.#progress.look(this.#pipeline.stages)
    for (const component of stuck) {
      if (this.#stuck.includes(component)) continue
      const fields = { code: 'SLUICE_STUCK', component }
      this.#log.error(fields, 'a component does not move though nothing holds it up: the watchdog is not fed any more')
    }
    this.#stuck = stuck
    return stuck.length === 0
  }
}

import type { Logger } from 'pino'
import { ProgressWatch } from '../../engine/run/measure/progress.js'
import type { Supervisor } from '../../engine/run/supervisor.js'
import { daemonState, type ServiceState } from './service-state.js'
import { CHECKS, type Subject } from './systemd.js'

export type Watched = Pick<Supervisor, 'states' | 'failures' | 'watched'>

/** The state and the health of a daemon, for systemd. */
export class DaemonSubject implements Subject {
  /** Why the configuration that was read last is not running. */
  refused: string | undefined
  readonly #pipeline: Watched
  readonly #log: Logger
  readonly #progress = new ProgressWatch(CHECKS)
  #stuck: readonly string[] = []

  constructor(pipeline: Watched, log: Logger) {
    this.#pipeline = pipeline
    this.#log = log
  }

  state(): ServiceState {
    const pipeline = this.#pipeline
    const states = { destinations: pipeline.states(), failures: pipeline.failures() }
    return daemonState({ ...states, refused: this.refused, stuck: this.#stuck })
  }

  goesOn(): boolean {
    const stuck = this.#progress.look(this.#pipeline.watched)
    for (const component of stuck) {
      if (this.#stuck.includes(component)) continue
      const fields = { code: 'SLUICE_STUCK', component }
      this.#log.error(fields, 'a component makes no progress although nothing blocks it; watchdog pings stop')
    }
    this.#stuck = stuck
    return stuck.length === 0
  }
}

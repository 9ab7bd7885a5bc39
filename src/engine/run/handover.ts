import type { WantedNames } from '../../lib/formats/json-scan.js'
import type { DestinationRun } from './destination-run.js'
import type { HandoverStates } from './handover-states.js'
import type { Outages } from './measure/outages.js'
import type { OwnOutputs } from './own-outputs.js'
import type { SourceRun } from './source-run.js'
import type { CheckpointStore } from './state/checkpoints.js'

/** What an engine leaves to the next one at a reload. */
export interface EngineHandover {
  readonly checkpoints: CheckpointStore
  readonly wanted: WantedNames
  readonly outputs: OwnOutputs
  /** Sources that keep running, by id. */
  readonly sources: ReadonlyMap<string, SourceRun>
  /** Destinations that keep running, by id. */
  readonly destinations: ReadonlyMap<string, DestinationRun>
  readonly handoverStates: HandoverStates
  readonly outages: Outages
}

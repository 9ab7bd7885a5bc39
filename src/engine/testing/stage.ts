import { JSON_OBJECTS } from '../../core/codecs/json.js'
import type { AnyDefinition, ComponentContext, Processor, ProcessorContext } from '../../core/component.js'
import { EventEditor } from '../../core/event/event-editor.js'
import { FieldReader } from '../../core/event/field-reader.js'
import type { OnError } from '../../core/processor.js'
import { silentLog } from '../../core/silent-log.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import type { TimerClock } from '../../lib/time.js'
import { ComponentCounters } from '../flow/counters.js'
import { Stage, type StageContext } from '../flow/stage.js'
import { ManualTime } from './manual-time.js'

export interface StageOptions {
  readonly counters?: ComponentCounters
  /** The field names for which the received events were scanned. */
  readonly wanted?: WantedNames
  readonly clock?: TimerClock
  readonly onError?: OnError
  readonly log?: ComponentContext['log'] | undefined
  readonly state?: ProcessorContext['state']
  readonly deadLetters?: StageContext['deadLetters']
  readonly inherited?: unknown
  readonly readsAgain?: (source: string) => boolean
}

/** Creates a processor in its stage, without an engine. The events for the stage must share its `wanted`. */
export function stageOf(definition: AnyDefinition<'processor'>, options: object, more: StageOptions = {}) {
  const { created, inStage } = prepared(definition, options, more)
  return inStage(created as Processor)
}

/** Like `stageOf`, for a processor whose code is loaded when it is created. */
export async function loadedStageOf(definition: AnyDefinition<'processor'>, options: object, more: StageOptions = {}) {
  const { created, inStage } = prepared(definition, options, more)
  return inStage(await created)
}

function prepared(definition: AnyDefinition<'processor'>, options: object, more: StageOptions) {
  const { clock = new ManualTime(), log = silentLog, onError = 'pass', deadLetters, readsAgain } = more
  const counters = more.counters ?? new ComponentCounters('p', 'processor', definition.type)
  const { wanted = new WantedNames() } = more
  const context: ProcessorContext = {
    id: counters.id,
    log,
    clock,
    metrics: counters,
    field: path => new FieldReader(path, wanted),
    editor: () => new EventEditor(wanted),
    inherited: more.inherited,
    state: more.state,
  }
  const parsed = definition.options.parse(options) as never
  const created = definition.create(parsed, context)
  const inStage = (processor: Processor) => {
    const origin = { source: counters.id, host: 'test-host', codec: JSON_OBJECTS, wanted } as const
    const plan = definition.plan?.(parsed) ?? {}
    const stage = new Stage(processor, plan, {
      ...context,
      origin,
      onError,
      deadLetters,
      ...(readsAgain && { readsAgain }),
    })
    counters.holds = () => stage.holds()
    return { stage, processor, counters, wanted }
  }
  return { created, inStage }
}

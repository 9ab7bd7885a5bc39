import type { ComponentContext, Processor, ProcessorContext } from '../../../core/component.js'
import { ConfigError, type FileProblem, formatProblem, type Problem } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { EditedField, EventEditor } from '../../../core/event/event-editor.js'
import { cannotBeSet } from '../../../core/event/field-path.js'
import { type FieldReader, MISSING, NULL_VALUE } from '../../../core/event/field-reader.js'
import { Growth } from '../../../core/event/growth.js'
import { type FindingsOf, shownValue } from '../../../core/explain.js'
import { type BatchScope, FAILED } from '../../../core/processor.js'
import { WatchedFile } from '../../../core/watched-file.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import { hostFacts } from './host-facts.js'
import type { EnrichOptions } from './options.js'
import { type ReadTable, readTable } from './read-table.js'
import { type LookupTable, TableError } from './table.js'

/** Maximum total size, in MiB, of those events of a batch that become much longer. */
const ROOM_MIB = 128

const EVENTS = 'sluice_enrich_events_total'
const EVENTS_HELP = 'Events by whether a row was found for them.'

abstract class Enricher implements Processor {
  readonly #editor: EventEditor
  readonly #target: EditedField
  readonly #growth = new Growth(ROOM_MIB)

  constructor({ target }: EnrichOptions, context: ProcessorContext) {
    this.#editor = context.editor()
    this.#target = this.#editor.field(target)
  }

  /** Returns the row for event `i` as JSON, or why the row is unusable. Undefined if the event must stay as it is. */
  protected abstract rowOf(batch: EventBatch, i: number): Buffer | TableError | undefined

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    this.#growth.begin()
    for (let i = 0; i < batch.length; i++) {
      const row = this.rowOf(batch, i)
      const problem = row instanceof TableError ? row.message : row && this.#put(batch, i, row)
      if (problem === undefined) continue
      to[i] = FAILED
      scope.because(i, problem)
    }
  }

  /** Returns why the row cannot be put into the event; undefined: it was put there. */
  #put(batch: EventBatch, i: number, row: Buffer): string | undefined {
    const size = batch.size(i)
    const refused = this.#growth.refuse(size, size + row.length)
    if (refused !== undefined) return refused
    this.#editor.open(batch, i)
    if (!this.#editor.setJson(this.#target, row)) return cannotBeSet(this.#target.path)
    this.#editor.close()
    return undefined
  }
}

class FixedEnricher extends Enricher {
  readonly #row: Buffer

  constructor(row: object, options: EnrichOptions, context: ProcessorContext) {
    super(options, context)
    this.#row = Buffer.from(jsonText(row))
  }

  protected rowOf(): Buffer {
    return this.#row
  }
}

class TableEnricher extends Enricher {
  #table: LookupTable
  readonly #file: WatchedFile<ReadTable>
  readonly #key: FieldReader
  readonly #default: Buffer | undefined
  readonly #context: ProcessorContext
  readonly #found: { value: number }
  readonly #missing: { value: number }
  #isValid = true
  #readAt: number

  constructor(table: LookupTable, file: WatchedFile<ReadTable>, options: EnrichOptions, context: ProcessorContext) {
    super(options, context)
    const { metrics, clock } = context
    this.#table = table
    this.#file = file
    this.#key = context.field(options.key_field!)
    this.#default = options.default && Buffer.from(jsonText(options.default))
    this.#context = context
    this.#readAt = clock.wall()
    this.#found = metrics.counter(EVENTS, EVENTS_HELP, { result: 'found' })
    this.#missing = metrics.counter(EVENTS, EVENTS_HELP, { result: 'missing' })
    metrics.gauge('sluice_enrich_table_rows', 'Rows of the table in use.', () => this.#table.size)
    const valid = '1 if the rows in use are the rows of the file; 0 if the file is broken and earlier rows are used.'
    metrics.gauge('sluice_enrich_table_valid', valid, () => (this.#isValid ? 1 : 0))
    const read = 'When the rows in use were read, in seconds since the epoch.'
    metrics.gauge('sluice_enrich_table_read_timestamp_seconds', read, () => this.#readAt / 1000)
  }

  async start(): Promise<void> {
    this.#file.watch(read => this.#use(read))
  }

  async stop(): Promise<void> {
    this.#file.stop()
  }

  protected rowOf(batch: EventBatch, i: number): Buffer | TableError | undefined {
    const key = this.#key
    const kind = key.load(batch, i)
    const row = kind === MISSING || kind === NULL_VALUE ? undefined : rowIn(this.#table, key.text())
    if (row instanceof TableError) return row
    if (row) this.#found.value++
    else this.#missing.value++
    return row ?? this.#default
  }

  #use(read: ReadTable): void {
    const { log, clock } = this.#context
    this.#isValid = 'find' in read
    if (!('find' in read)) {
      const error = formatProblem(asProblem(read))
      log.warn({ error }, 'the table cannot be used; keeping the rows that were read last')
      return
    }
    this.#table = read
    this.#readAt = clock.wall()
    log.info({ file: this.#file.path, rows: read.size }, 'table read again')
  }
}

/** Throws ConfigError if the table cannot be used. */
export async function openEnricher(options: EnrichOptions, context: ProcessorContext): Promise<Processor> {
  const { table: path, facts = [], environment = [] } = options
  if (path === undefined) {
    const set = environment.flatMap(name => (process.env[name] === undefined ? [] : [[name, process.env[name]]]))
    return new FixedEnricher({ ...(await hostFacts(facts)), ...Object.fromEntries(set) }, options, context)
  }
  const file = new WatchedFile(path, context.clock, () => readTable(path, options, context.reach))
  return new TableEnricher(usable(await file.first()), file, options, context)
}

export async function enrichFindings(options: EnrichOptions, context: ComponentContext): Promise<FindingsOf> {
  const { table: path, key_field: field } = options
  if (path === undefined || !field) return () => []
  const table = usable(await readTable(path, options, context.reach))
  const key = context.field(field)
  return batch => {
    const kind = key.load(batch, 0)
    const row = kind === MISSING || kind === NULL_VALUE ? undefined : rowIn(table, key.text())
    const isUsable = row !== undefined && !(row instanceof TableError)
    const value = row instanceof TableError ? row.message : shownValue(key)
    return [{ text: `${path} has a row for ${field.text}`, holds: isUsable, value }]
  }
}

/** Returns the row of a key, or an error if the row cannot be used; undefined: there is no row. */
function rowIn(table: LookupTable, text: string): Buffer | TableError | undefined {
  try {
    return table.find(text)
  } catch (error) {
    if (error instanceof TableError) return error
    throw error
  }
}

function usable(read: ReadTable): LookupTable {
  if ('find' in read) return read
  throw new ConfigError([asProblem(read)])
}

function asProblem({ file, line, message }: FileProblem): Problem {
  return { file, line, column: 1, path: '', message }
}

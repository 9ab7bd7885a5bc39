/** Metrics as text: that of Prometheus (version 0.0.4) and OpenMetrics 1.0.0. */
export type Format = 'text' | 'openmetrics'

export const CONTENT_TYPES: Readonly<Record<Format, string>> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

/** One thing that was counted, as an example. Shown in OpenMetrics only. */
export interface ShownExemplar {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
  /** Wall clock in milliseconds. */
  readonly at: number
}

/** All labels of an exemplar together may have so many characters, names and values. */
const MOST_EXEMPLAR = 128
const UNIT = /_(seconds|bytes)(_total)?$/

/** Between turns of the event loop, so many samples are put into words. */
const SLICE = 500

/** The samples of one family. */
export class Family {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly names: string[] = []
  readonly labels: string[] = []
  readonly values: number[] = []
  readonly exemplars: (ShownExemplar | undefined)[] = []
  /** Where samples are that may come again. */
  readonly #places: Map<string, number> | undefined

  constructor(name: string, type: string, help: string, merged: boolean) {
    this.name = name
    this.type = type
    this.help = help
    if (merged) this.#places = new Map()
  }

  /** `labels` is the text of `labelText`; `name` is another one than that of the family for the parts of a histogram. */
  add(labels: string, value: number, exemplar?: ShownExemplar, name = this.name): void {
    const at = this.#places?.get(`${name}{${labels}`)
    if (at !== undefined) {
      this.values[at] = this.type === 'gauge' ? value : this.values[at]! + value
      this.exemplars[at] ??= exemplar
      return
    }
    this.#places?.set(`${name}{${labels}`, this.values.length)
    this.names.push(name)
    this.labels.push(labels)
    this.values.push(value)
    this.exemplars.push(exemplar)
  }
}

/** Takes families of metrics, and puts them into words in slices, so that many of them do not hold up the event loop. */
export class Exposition {
  readonly #open: boolean
  readonly #families: Family[] = []

  constructor(format: Format) {
    this.#open = format === 'openmetrics'
  }

  /** Another family. `merged`: the same labels may come twice; they are added up then, and of gauges the last one counts. */
  family(name: string, type: string, help: string, merged = false): Family {
    const family = new Family(name, type, help, merged)
    this.#families.push(family)
    return family
  }

  /** The bound of a bucket, or a quantile, as the format wants to have it. */
  bound(value: number): string {
    if (!Number.isFinite(value)) return numberText(value)
    return this.#open && Number.isInteger(value) ? value.toFixed(1) : String(value)
  }

  /** All of it. */
  async end(): Promise<Buffer> {
    const parts: Buffer[] = []
    let text = ''
    let since = 0
    for (const [i, family] of this.#families.entries()) {
      text += this.#head(family, i === 0)
      for (let at = 0; at < family.values.length; at++) {
        if (since++ === SLICE) {
          // The memory of the pieces is free again before there are many of them.
          parts.push(Buffer.from(text))
          text = ''
          since = 0
          await nextTurn()
        }
        text += this.#line(family, at)
      }
    }
    parts.push(Buffer.from(this.#open ? `${text}# EOF\n` : text))
    return Buffer.concat(parts)
  }

  #head({ name, type, help }: Family, first: boolean): string {
    const text = escapeText(help)
    if (!this.#open) return `${first ? '' : '\n'}# HELP ${name} ${text}\n# TYPE ${name} ${type}\n`
    const family = type === 'counter' ? name.replace(/_total$/, '') : name
    const unit = UNIT.exec(name)?.[1]
    const about = unit ? `# UNIT ${family} ${unit}\n` : ''
    return `# TYPE ${family} ${type}\n${about}# HELP ${family} ${text.replace(/"/g, '\\"')}\n`
  }

  #line(family: Family, at: number): string {
    const [name, labels, value] = [family.names[at]!, family.labels[at]!, numberText(family.values[at]!)]
    const exemplar = family.exemplars[at]
    const shown = exemplar && this.#open ? exemplarText(exemplar) : ''
    return labels === '' ? `${name} ${value}${shown}\n` : `${name}{${labels}} ${value}${shown}\n`
  }
}

/** Lets the event loop do what waits, so that the work before and the work after do not hold it up together. */
export function nextTurn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

/** Labels as they stand between the braces. */
export function labelText(labels: Readonly<Record<string, string>>): string {
  let text = ''
  for (const name in labels) text += `${text && ','}${name}="${escapeLabel(labels[name]!)}"`
  return text
}

function escapeLabel(value: string): string {
  return /[\\"\n]/.test(value) ? escapeText(value).replace(/"/g, '\\"') : value
}

function escapeText(text: string): string {
  return text.replace(/\\/g, '\\\\').replace(/\n/g, '\\n')
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}

function exemplarText({ labels, value, at }: ShownExemplar): string {
  let length = 0
  for (const name in labels) length += name.length + labels[name]!.length
  return length > MOST_EXEMPLAR ? '' : ` # {${labelText(labels)}} ${numberText(value)} ${(at / 1000).toFixed(3)}`
}

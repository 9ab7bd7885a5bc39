import type { Encoded } from '../../../core/codecs/encode.js'
import { LayoutBody } from '../../../core/codecs/layout.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldPath } from '../../../core/event/field-path.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import { type RequestText, RequestTexts } from '../../../core/partition.js'
import { isConstant, parseTemplate, type Template } from '../../../core/template.js'
import { BoundedMap } from '../../../lib/bounded-map.js'
import { isDotSegment, withoutQuery } from '../../urls.js'
import type { RequestFormat } from './request-format.js'

/** Maximum number of cached heads. */
const MOST_KEPT = 128

export interface Address {
  readonly url: string
  /** The origin to connect to, as a URL. */
  readonly target: URL
  readonly path: string
}

/** Values by name in lower case. */
type Headers = Readonly<Record<string, string>>

/** A request without its body: its address, its headers, and the texts for the body. */
export interface Head {
  readonly address: Address
  /** Method and URL, for messages. */
  readonly place: string
  /** Headers from the format. */
  readonly headers: Headers
  /** Headers from the options. They override all others. */
  readonly ownHeaders: Headers
  readonly texts: Readonly<Record<string, string>>
}

/** The URL, headers and body texts of requests, which are the same for all events or for those of a partition. */
export class RequestHeads {
  readonly #format: RequestFormat
  readonly #encode: NonNullable<RequestFormat['encode']>
  readonly #texts: RequestTexts
  /** For each template, in order: where its text belongs. The first text, for the URL, is not listed. */
  readonly #names: { readonly place: 'headers' | 'ownHeaders' | 'texts'; readonly name: string }[] = []
  readonly #kept = new BoundedMap<string | undefined, Head>(MOST_KEPT)
  #lastName = { part: '', rest: '', name: '\n' }
  /** Headers that are the same for all events. */
  readonly constant: { readonly headers: Headers; readonly ownHeaders: Headers }
  /** Like `partitionOf` of Destination; undefined if all events share one head. */
  readonly partitionOf: ((batch: EventBatch, i: number) => string) | undefined
  /** Whether all events are in one partition. */
  readonly isOnePartition: boolean

  /** `headers`: the headers in the options. `field`: as in the context. */
  constructor(
    format: RequestFormat,
    headers: Readonly<Record<string, string>>,
    field: (path: FieldPath) => FieldReader,
  ) {
    this.#format = format
    const { records } = format
    if (!format.encode && !records) throw new Error('the format of requests needs encode or records')
    const body = records && new LayoutBody(records)
    this.#encode = (request, texts) => format.encode?.(request, texts) ?? body!.encode(request, texts)
    const texts = [urlText(format.url)]
    const split = (given: Readonly<Record<string, string | Template>>, own: boolean): Headers => {
      const constant: Record<string, string> = {}
      for (const [option, value] of Object.entries(given)) {
        const name = option.toLowerCase()
        const template = typeof value === 'string' && !own ? { text: value, parts: [value] } : asTemplate(value)
        if (isConstant(template)) constant[name] = template.parts.join('')
        else {
          this.#names.push({ place: own ? 'ownHeaders' : 'headers', name })
          texts.push({ option: own ? `headers.${option}` : option, template, encode: headerText })
        }
      }
      return constant
    }
    this.constant = { headers: split(format.headers ?? {}, false), ownHeaders: split(headers, true) }
    for (const [option, template] of Object.entries(format.texts ?? {})) {
      this.#names.push({ place: 'texts', name: option })
      texts.push({ option, template })
    }
    this.#texts = new RequestTexts(texts, field)
    const { partOf, isOnePart = !partOf } = format
    this.isOnePartition = isOnePart && this.#texts.areConstant
    const named = this.#texts.areConstant
      ? undefined
      : (batch: EventBatch, i: number) => this.#texts.partitionOf(batch, i)
    this.partitionOf = partOf ? (batch, i) => this.#joined(partOf(batch, i), named?.(batch, i) ?? '') : named
  }

  /** Caches the last name, because consecutive events mostly have the same name. */
  #joined(part: string, rest: string): string {
    const last = this.#lastName
    if (part !== last.part || rest !== last.rest) this.#lastName = { part, rest, name: `${part}\n${rest}` }
    return this.#lastName.name
  }

  /** `partition`: the name that `partitionOf` returned for the request's events. */
  of(partition: string | undefined): Head {
    const name = this.#format.partOf ? partition?.slice(partition.indexOf('\n') + 1) || undefined : partition
    let head = this.#kept.get(name)
    if (head) return head
    const [url = '', ...values] = this.#texts.of(name)
    const { headers, ownHeaders } = this.constant
    const named = { headers: { ...headers }, ownHeaders: { ...ownHeaders }, texts: {} as Record<string, string> }
    for (const [i, { place, name }] of this.#names.entries()) named[place][name] = values[i]!
    head = { address: splitUrl(url), place: `${this.#format.method ?? 'POST'} ${withoutQuery(url)}`, ...named }
    this.#kept.set(name, head)
    return head
  }

  /** The head for events without fields. Throws a DeliveryError if a template has a field without a default. */
  ofDefaults(): Head {
    return this.of(this.partitionOf && this.#texts.partitionOfDefaults())
  }

  /** Encodes the body of a request with the texts of its first event. All its events have the same texts. */
  encode(request: readonly EventBatch[]): Encoded {
    return this.#encode(request, this.of(this.partitionOf?.(request[0]!, 0)).texts)
  }
}

export function splitUrl(url: string): Address {
  const { origin, pathname, search } = new URL(url)
  return { url, target: new URL(origin), path: pathname + search }
}

const asTemplate = (value: string | Template): Template => (typeof value === 'string' ? parseTemplate(value) : value)

/** Rejects values that would become a dot segment of the path. */
function urlText(url: string): RequestText {
  const problem = (text: string) => {
    const [path = ''] = text.split(/[?#]/, 1)
    return path.split('/').some(isDotSegment) ? 'would leave its path, because a value is "." or ".."' : undefined
  }
  return { option: 'url', template: parseTemplate(url), encode: encodeURIComponent, problem }
}

/** Percent-encodes percent signs, characters that are not printable ASCII, and spaces at the ends of the value. */
function headerText(value: string): string {
  return value.replace(/[^\x20-\x7e]|%|^ | $/gu, encodeURIComponent)
}

import { Seeded } from '../support/seeded.js'

/** Requests made from an OpenAPI document: mostly such as it allows, and then spoiled in one way or another. */

// biome-ignore lint/suspicious/noExplicitAny: a document of JSON
type Json = any

export interface FuzzRequest {
  readonly method: string
  readonly path: string
  /** As in the document. */
  readonly template: string
  readonly headers: Record<string, string>
  readonly body: string | undefined
}

const NASTY = [
  '',
  ' ',
  '0',
  '-1',
  '1e999',
  'null',
  'undefined',
  '__proto__',
  'constructor',
  '%00',
  '%2e%2e%2f',
  '../../etc/passwd',
  "' OR 1=1 --",
  '<script>',
  '\u202egpj.exe',
  'ø'.repeat(40),
  '😀',
  'a'.repeat(5000),
  '${HOME}',
  '{{7*7}}',
] as const

const VALUES: readonly unknown[] = [null, true, -1, 1e308, 0.5, 2 ** 53, '', [], {}, [[]], { a: { b: {} } }, ...NASTY]

/** Ids that exist, or did; they change as answers come. Keys that work. */
export interface Known {
  readonly ids: string[]
  readonly keys: readonly string[]
  /** The key that may do most, and that of the enterprise. */
  readonly manager: string
  readonly enterprise: string
}

/** Made of a seed, and of what is known at the time. */
export class Requests {
  readonly #seeded: Seeded
  readonly #document: Json
  readonly #known: Known
  readonly #operations: { template: string; method: string; operation: Json }[]

  constructor(seed: number, document: Json, known: Known) {
    this.#seeded = new Seeded(seed)
    this.#document = document
    this.#known = known
    this.#operations = Object.entries(document.paths as Json).flatMap(([template, item]) =>
      Object.entries(item as Json).map(([method, operation]) => ({
        template,
        method: method.toUpperCase(),
        operation,
      })),
    )
  }

  next(): FuzzRequest {
    const { template, method, operation } = this.#pick(this.#operations)
    const path = template.replace(/\{(\w+)\}/g, () => encode(this.#segment()))
    const query = this.#query(operation)
    const content = this.#content(operation)
    const others = ['PATCH', 'OPTIONS', 'DELETE', 'PUT', 'POST', ...(content.body === undefined ? ['HEAD', 'GET'] : [])]
    return {
      method: this.#chance(0.03) ? this.#pick(others) : method,
      path: (this.#chance(0.02) ? `${path}/${encode(this.#pick(NASTY))}` : path) + query,
      template,
      ...content,
    }
  }

  #pick<T>(list: readonly T[]): T {
    return this.#seeded.pick(list)
  }

  #chance(of: number): boolean {
    return this.#seeded.chance(of)
  }

  #segment(): string {
    const kind = this.#seeded.next()
    if (kind < 0.6) return this.#pick(this.#known.ids)
    if (kind < 0.75) return 'throttle'
    if (kind < 0.85) return String(Math.floor(this.#seeded.next() * 4))
    return this.#pick(NASTY) || 'x'
  }

  #query(operation: Json): string {
    const parts: string[] = []
    for (const { name, in: where, schema } of operation.parameters) {
      if (where !== 'query' || this.#chance(0.6)) continue
      const value = this.#chance(0.5) ? String(this.#value(schema, 0)) : this.#pick(NASTY)
      parts.push(`${name}=${encode(value)}`)
    }
    if (this.#chance(0.05)) parts.push(`${encode(this.#pick(NASTY))}=${encode(this.#pick(NASTY))}`)
    return parts.length > 0 ? `?${parts.join('&')}` : ''
  }

  #content(operation: Json): Pick<FuzzRequest, 'headers' | 'body'> {
    const headers: Record<string, string> = {}
    const { keys, manager, enterprise } = this.#known
    const fitting = operation['x-scope'] === 'enterprise:manage' ? enterprise : manager
    const wrong = ['sts_0', `ste_${'0'.repeat(40)}`, 'x']
    const key = this.#chance(0.6) ? fitting : this.#pick(this.#chance(0.95) ? keys : wrong)
    if (!this.#chance(0.02)) headers.authorization = `${this.#chance(0.02) ? 'Bearer' : 'Token'} ${key}`
    if (this.#chance(key === enterprise ? 0.4 : 0.03))
      headers['x-delegate-account-id'] = this.#pick([...this.#known.ids, 'x', '0'.repeat(24)])
    for (const { name, in: where } of operation.parameters) {
      if (where === 'header' && name !== 'x-delegate-account-id' && this.#chance(0.2))
        headers[name] = this.#pick(['"1"', '*', 'W/"x"', 'x, y', 'gzip', '', '"'])
    }
    const content = operation.requestBody?.content
    if (!content || this.#chance(0.03)) return { headers, body: undefined }
    const type = this.#pick(Object.keys(content))
    headers['content-type'] = this.#chance(0.03) ? 'text/xml' : type
    const schema = content[type].schema
    if (type === 'application/x-ndjson' && this.#chance(0.7)) return { headers, body: '{"a":1}\n{"a":2}\n' }
    const value = JSON.stringify(this.#value(schema, 0)) ?? ''
    if (this.#chance(0.05)) return { headers, body: value.slice(0, Math.floor(this.#seeded.next() * value.length)) }
    if (this.#chance(0.02)) return { headers, body: '['.repeat(2000) }
    return { headers, body: value }
  }

  /** A value of `schema`, or now and then one that is not. */
  #value(schema: Json, depth: number): unknown {
    if (this.#chance(0.06)) return this.#pick(VALUES)
    if (schema.$ref) return this.#value(this.#document.components.schemas[schema.$ref.split('/').at(-1)], depth)
    const branch = schema.anyOf ?? schema.oneOf
    if (branch) return this.#value(this.#pick(branch), depth)
    if (schema.const !== undefined) return schema.const
    if (schema.enum) return this.#pick(schema.enum)
    switch (schema.type) {
      case 'object':
        return this.#object(schema, depth)
      case 'array':
        return Array.from({ length: Math.floor(this.#seeded.next() * 4) }, () =>
          this.#value(schema.items ?? {}, depth + 1),
        )
      case 'integer':
        return Math.floor(this.#seeded.next() * 100)
      case 'number':
        return this.#seeded.next() * 1000
      case 'boolean':
        return this.#chance(0.5)
      case 'null':
        return null
      case 'string':
        return this.#text(schema)
      default:
        return depth > 3 ? 1 : this.#anything(depth)
    }
  }

  #object(schema: Json, depth: number): unknown {
    const value: Record<string, unknown> = {}
    const properties = (schema.properties ?? {}) as Json
    const required: readonly string[] = schema.required ?? []
    for (const [name, inner] of Object.entries(properties)) {
      if (!required.includes(name) && this.#chance(0.5)) continue
      if (this.#chance(0.03)) continue
      value[name] = this.#value(inner, depth + 1)
    }
    if (this.#chance(0.03)) value[this.#pick(NASTY)] = 1
    const open = typeof schema.additionalProperties === 'object' && Object.keys(properties).length === 0
    if (!open) return value
    // A record of anything is a configuration here: begin with one that holds.
    return this.#chance(0.3) ? { ...value, ...(this.#anything(depth) as object) } : this.#config()
  }

  #config(): unknown {
    const config: Json = {
      processors: { limit: { type: 'throttle', inputs: ['ingest'], limit: 1, window: '1s' } },
      destinations: { out: { type: 'blackhole', inputs: ['limit'] } },
    }
    if (this.#chance(0.5)) {
      delete config.processors
      config.destinations.out.inputs = ['ingest']
    }
    if (this.#chance(0.4)) config.destinations[this.#pick(['out', 'x', '__proto__x', ''])] = this.#anything(1)
    if (this.#chance(0.2))
      config[this.#pick(['sources', 'metrics', 'data_dir', 'tests', 'service'])] = this.#anything(1)
    return config
  }

  #anything(depth: number): unknown {
    if (depth > 4 || this.#chance(0.3)) return this.#pick(VALUES)
    const entries = Array.from({ length: Math.floor(this.#seeded.next() * 4) }, () => [
      this.#pick(['type', 'inputs', 'limit', 'a', 'batch', ...NASTY]),
      this.#anything(depth + 1),
    ])
    return this.#chance(0.3) ? entries.map(([, value]) => value) : Object.fromEntries(entries)
  }

  #text(schema: Json): string {
    if (schema.pattern?.includes('[0-9a-f]{24}')) return this.#pick(this.#known.ids)
    if (schema.pattern?.includes('@')) return `u${Math.floor(this.#seeded.next() * 1e6)}@example.com`
    if (schema.format === 'date-time') return '2031-02-03T04:05:06Z'
    return this.#chance(0.8) ? this.#pick(['a', 'b-1', '10 Seconds', '1 Hours', 'ready']) : this.#pick(NASTY)
  }
}

const encode = encodeURIComponent

import { z } from 'zod'
import type { Got } from '../support/service.js'

// biome-ignore lint/suspicious/noExplicitAny: a document of JSON
type Json = any

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const ID = /^[0-9a-f]{24}$/
const AUTH: readonly [name: string, pattern: RegExp][] = [
  ['x-auth-subject-id', ID],
  ['x-auth-enterprise-id', ID],
  ['x-auth-subject-email', /^[^\s@]+@[^\s@]+$/],
  ['x-auth-access-type', /^access$/],
]
const AUTH_OF_ACCOUNT: readonly [name: string, pattern: RegExp][] = [
  ['x-auth-account-id', ID],
  ['x-auth-account-short-id', /^\S{9}$/],
]

/** What an OpenAPI document says of answers, as a check of them. */
export class Answers {
  readonly #document: Json
  readonly #schemas = new Map<string, z.ZodType>()

  constructor(document: Json) {
    this.#document = document
  }

  /** What is wrong with an answer to `method` on `template`; empty when it is as documented. */
  faults(template: string, method: string, got: Got): string[] {
    const faults: string[] = []
    const known = method === 'HEAD' ? 'GET' : method
    const operation = this.#document.paths[template]?.[known.toLowerCase()]
    if (!UUID.test(got.headers.get('x-request-id') ?? '')) faults.push('no x-request-id')
    if (![401, 404, 429, 503].includes(got.status)) faults.push(...identityFaults(got))
    const answer = operation?.responses[got.status]
    if (!answer) {
      const mistaken = operation === undefined && [401, 403, 404, 405, 429, 503].includes(got.status)
      return mistaken ? faults : [...faults, `status ${got.status} is not documented`]
    }
    if (method === 'HEAD') return got.text === '' ? faults : [...faults, 'HEAD has a body']
    const schema = answer.content?.['application/json']?.schema
    if (!schema) return got.text === '' ? faults : [...faults, 'a body where none is documented']
    const parsed = this.#schema(`${known} ${template} ${got.status}`, schema).safeParse(got.body)
    return parsed.success ? faults : [...faults, ...parsed.error.issues.map(issue => JSON.stringify(issue))]
  }

  #schema(name: string, schema: Json): z.ZodType {
    let compiled = this.#schemas.get(name)
    if (!compiled) {
      const text = JSON.stringify({ ...schema, $defs: this.#document.components.schemas })
      compiled = z.fromJSONSchema(JSON.parse(text.replaceAll('#/components/schemas/', '#/$defs/')))
      this.#schemas.set(name, compiled)
    }
    return compiled
  }
}

/** Headers of every authenticated answer. */
export function identityFaults({ headers }: Got): string[] {
  const wrong = ([name, pattern]: readonly [string, RegExp]) => !pattern.test(headers.get(name) ?? '')
  const account = headers.has('x-auth-account-id') || headers.has('x-auth-account-short-id')
  return [...AUTH, ...(account ? AUTH_OF_ACCOUNT : [])].filter(wrong).map(([name]) => `${name} is not as documented`)
}

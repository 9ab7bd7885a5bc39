import { parsedLines } from './parsed-lines.js'
import type { Answer, Received } from './receiver.js'

export type Action = Record<string, { _index: string; _id: string; pipeline?: string }>
export type Document = Record<string, unknown>

/** The actions of a bulk request, each with its document. */
export function pairsOf({ body }: Received): [Action, Document][] {
  const lines = parsedLines<unknown>(body)
  return Array.from({ length: lines.length / 2 }, (_, n) => [lines[2 * n] as Action, lines[2 * n + 1] as Document])
}

interface Item {
  readonly _index: string
  readonly _id: string
  readonly status: number
  readonly error?: { readonly type: string; readonly reason: string; readonly caused_by?: object }
  readonly failure_store?: string
}

/** The data stream that exists. */
export const STREAM = 'logs-app-default'
const ENCODED = 'aWQ6YS1zZWNyZXQ='

/**
 * Answers as Elasticsearch 8.19 and 9.2 do by their documentation and their source: with an API key, with a data stream
 * whose failure store takes documents that do not fit the mapping, and with everything else that is not asked for. A
 * document with the field `odd` does not fit.
 */
export class Elasticsearch {
  readonly key = ENCODED
  readonly stored = new Map<string, Document>()
  readonly failures: Document[] = []
  failureStore: 'used' | 'not_enabled' | 'failed' = 'used'
  /** As in versions from 8.18 to 9.2: a document that a pipeline cannot read fails the whole request. */
  failsWhole = false
  readonly #version: string

  constructor(version: string) {
    this.#version = version
  }

  readonly answer = (received: Received): Answer => {
    const { method, path, headers } = received
    if (headers.authorization !== `ApiKey ${this.key}`)
      return this.#json(401, {
        error: {
          root_cause: [{ type: 'security_exception', reason: 'unable to authenticate with provided credentials' }],
          type: 'security_exception',
          reason: 'unable to authenticate with provided credentials and anonymous access is not allowed',
          header: { 'WWW-Authenticate': ['Basic realm="security", charset="UTF-8"', 'ApiKey'] },
        },
        status: 401,
      })
    const { pathname, searchParams } = new URL(path, 'http://elastic')
    if (method === 'GET' && pathname === '/')
      return this.#json(200, {
        name: 'node-1',
        cluster_name: 'cluster',
        version: { number: this.#version, build_flavor: 'default', build_type: 'docker', lucene_version: '10.3.1' },
        tagline: 'You Know, for Search',
      })
    if (method === 'GET' && pathname === `/_resolve/index/${STREAM}`)
      return this.#json(200, {
        indices: [],
        aliases: [],
        data_streams: [
          {
            name: STREAM,
            backing_indices: [`.ds-${STREAM}-2026.01.31-000001`],
            timestamp_field: '@timestamp',
            failure_indices: [`.fs-${STREAM}-2026.01.31-000002`],
          },
        ],
      })
    if (method !== 'POST' || pathname !== '/_bulk') return this.#json(404, { error: 'no handler found', status: 404 })
    const pairs = received.body === '\n' ? [] : pairsOf(received)
    if (pairs.length === 0) return this.#refused('action_request_validation_exception', 'no requests added;')
    if (this.failsWhole && pairs.some(([{ create }, { odd }]) => create?.pipeline && odd))
      return this.#refused('x_content_parse_exception', "[1:40] Duplicate field 'odd'")
    const items = pairs.map(([{ create }, document]) => ({ create: this.#itemOf(create!._id, document) }))
    const all = { errors: items.some(({ create: { status } }) => status >= 300), took: 3, ingest_took: 0, items }
    if (searchParams.get('filter_path') === null) return this.#json(200, all)
    const kept = items.map(({ create: { status, error, failure_store } }) => ({
      create: { status, error, failure_store },
    }))
    return this.#json(200, { errors: all.errors, items: kept })
  }

  #itemOf(_id: string, document: Document): Item {
    const about = { _index: `.ds-${STREAM}-2026.01.31-000001`, _id }
    const stored = { ...about, _version: 1, result: 'created', _seq_no: 0, _primary_term: 1, status: 201 }
    if (document.odd) {
      if (this.failureStore === 'used') {
        this.failures.push(document)
        return { ...stored, _index: `.fs-${STREAM}-2026.01.31-000002`, failure_store: 'used' }
      }
      const type = 'document_parsing_exception'
      const error = { type, reason: '[1:8] failed to parse field [odd] of type [long]', caused_by: { reason: 'text' } }
      return { ...about, status: 400, error, failure_store: this.failureStore }
    }
    if (this.stored.has(_id)) {
      const reason = `[${_id}]: version conflict, document already exists (current version [1])`
      return { ...about, status: 409, error: { type: 'version_conflict_engine_exception', reason } }
    }
    this.stored.set(_id, document)
    return stored
  }

  #refused(type: string, reason: string): Answer {
    return this.#json(400, { error: { root_cause: [{ type, reason }], type, reason }, status: 400 })
  }

  #json(status: number, body: object): Answer {
    const headers = { 'content-type': 'application/json;charset=utf-8', 'X-elastic-product': 'Elasticsearch' }
    return { status, headers, body: JSON.stringify(body) }
  }
}

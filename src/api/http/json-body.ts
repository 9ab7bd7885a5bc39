import { isUtf8 } from 'node:buffer'
import type { FastifyInstance } from 'fastify'
import { errorText } from '../../core/errors.js'
import { ApiError } from '../domain/errors.js'

/** No document that anybody means is nested deeper; what walks through one may be recursive. */
const DEEPEST = 64

/** Makes the app of `plugin` read bodies as JSON, and refuse all others. An empty body is none. */
export function takeJson(plugin: FastifyInstance): void {
  plugin.removeAllContentTypeParsers()
  plugin.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (_request: unknown, body: Buffer) =>
    body.length === 0 ? undefined : parseBody(body),
  )
  plugin.addHook('preParsing', (request, _reply, payload, done) => {
    const encoding = request.headers['content-encoding']
    if (encoding === undefined || /^identity$/i.test(encoding)) done(null, payload)
    else done(new ApiError(415, 'unsupported_encoding', 'send the body without content-encoding'))
  })
}

/** Makes the app of `plugin` leave bodies alone, whatever they are. */
export function leaveBody(plugin: FastifyInstance): void {
  plugin.removeAllContentTypeParsers()
  plugin.addContentTypeParser('*', (_request, _payload, done) => done(null, undefined))
}

function parseBody(body: Buffer): unknown {
  if (!isUtf8(body)) throw invalid('is not valid UTF-8')
  let value: unknown
  try {
    value = JSON.parse(body.toString())
  } catch (error) {
    throw invalid(`is not valid JSON: ${errorText(error)}`)
  }
  checkShape(value)
  return value
}

/** Without recursion: the value may be nested as deeply as its text is long. */
function checkShape(value: unknown): void {
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > DEEPEST) throw invalid(`is nested deeper than ${DEEPEST} levels`)
    const next: unknown[] = []
    for (const node of level) {
      if (typeof node !== 'object' || node === null) continue
      if (Object.hasOwn(node, '__proto__')) throw invalid('has the name __proto__, which is not possible')
      for (const inner of Object.values(node)) next.push(inner)
    }
    level = next
  }
}

const invalid = (what: string): ApiError => new ApiError(400, 'invalid_json', `the body ${what}`)

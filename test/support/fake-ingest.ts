import { ApiError } from '../../src/service/api/domain/errors.js'
import type { Service } from '../../src/service/api/domain/service.js'
import type { Ingest } from '../../src/service/api/http/ingest.js'

/** Takes lines for as long as it is not told to refuse; what came is kept. */
export class FakeIngest implements Ingest {
  readonly bodies: string[] = []
  full = false
  service: Service | undefined

  ingest: Ingest['ingest'] = async (principal, pipelineId, request, confirm) => {
    await this.service!.pipelines.forIngest(principal, pipelineId)
    if (this.full) throw new ApiError(503, 'unavailable', 'no room now', { headers: { 'retry-after': '1' } })
    const type = request.headers['content-type']
    if (type !== 'application/x-ndjson') throw new ApiError(415, 'unsupported_content', 'send NDJSON')
    let text = ''
    for await (const part of request.setEncoding('utf8')) {
      text += part
      if (text.length > 10_000) throw new ApiError(413, 'body_too_large', 'send less')
    }
    await confirm()
    if (text.includes('bad')) throw new ApiError(400, 'invalid_events', 'these are no events')
    this.bodies.push(text)
    return { status: 202, body: { accepted: text.split('\n').length - 1 } }
  }
}

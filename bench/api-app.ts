import type { Logger } from 'pino'
import { ConnectionLimits } from '../src/net/limits.js'
import type { Service } from '../src/service/api/domain/service.js'
import { buildApp } from '../src/service/api/http/app.js'

/** The `/v3` API of a service, with bounds that no measurement reaches. */
export function benchApp(service: Service, log: Logger): ReturnType<typeof buildApp> {
  return buildApp({
    service,
    log,
    maxBody: 1e6,
    trustedProxies: [],
    connections: new ConnectionLimits({ max: 1000, closesUsed: true }, { closed() {}, refused() {} }),
    headersMs: 10_000,
    requestMs: 60_000,
    keepAliveMs: 60_000,
  })
}

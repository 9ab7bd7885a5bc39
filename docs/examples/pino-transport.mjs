// An app whose log lines are throttled by key and shipped over HTTP, from a thread of their own.
//
//   INGEST_URL=http://127.0.0.1:8080/v3/ingest/abc SLUICE_ACCESS_KEY=… node docs/examples/pino-transport.mjs
import { pino } from 'pino'

const { INGEST_URL: url = 'http://127.0.0.1:8080/', SLUICE_ACCESS_KEY: key } = process.env

const log = pino({
  transport: {
    target: '@sluice-logs/sluice/pino',
    options: {
      throttle: { limit: 10, window: '1 Seconds', key_field: '.route', exclude: 'if (.level greater_or_equal 50)' },
      http: { url, batch: { max_wait: '200ms' }, ...(key ? { auth: { type: 'token', key } } : {}) },
      shutdown_timeout: '5 Seconds',
    },
  },
})

for (let n = 0; n < 100; n++) log.info({ route: n % 2 ? '/orders' : '/health', n }, 'request served')
log.error({ route: '/orders' }, 'request failed')
// Nothing to close: pino ends the transport with the process, and the transport delivers what it has.

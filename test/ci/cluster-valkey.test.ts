import t from 'tap'
import { needs } from '../support/needs.js'
import { SERVER } from '../support/redis-server.js'

/** The tests of cluster limits that have most to do with the server, with Valkey in the place of Redis. */

const valkey = needs(t, 'valkey-server')
if (valkey) {
  process.env[SERVER] = valkey
  await import('./cluster.test.js')
  await import('../unit/components/throttle/cluster/script.test.js')
}

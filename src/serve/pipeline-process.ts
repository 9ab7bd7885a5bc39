import { PassThrough } from 'node:stream'
import type { AnyDefinition } from '../core/component.js'
import { BODY_FD, BodyPipe } from '../ingest/process/body-pipe.js'
import type { Call, FromProcess } from '../ingest/process/messages.js'
import { PipelineWorker } from '../ingest/worker/pipeline-worker.js'
import { systemRandom } from '../lib/backoff.js'
import { AddressRules } from '../lib/network/address-rules.js'
import { every, systemClock } from '../lib/time.js'
import { messageLog } from '../terminal/log.js'
import type { ProcessSetup } from './pipeline-processes.js'
import { componentsWith } from './service-plugins.js'

/** The program of the process in which the published pipelines of one account run. The service starts it, see serve/ingest.ts. */

/** What has not ended by itself when the service is gone. */
const END_MS = 3000

// The service ends it in order; a signal for the whole group is meant for the service.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

process.once('message', (setup: ProcessSetup) => {
  // What arrives meanwhile is received in order when the plugins are loaded.
  const opened = componentsWith(setup.plugins).then(components => open(setup, components))
  const bodies = new BodyPipe(BODY_FD)
  process.on('message', (call: Call) => {
    const body = call.name === 'take' ? bodies.next((call as Call<'take'>).of.body.size) : undefined
    void opened.then(worker => worker.receive(call, body))
  })
  // The service has asked for the end, or was killed: nobody else waits for anything.
  process.once('disconnect', () => {
    every(END_MS, () => process.kill(process.pid, 'SIGKILL'))
    void opened.then(worker => worker.close())
  })
})

function open(
  { account, folder, maxDisk, logLevel, files, never, urls, addresses }: ProcessSetup,
  components: readonly AnyDefinition[],
): PipelineWorker {
  const tell = (message: FromProcess) => void (process.connected && process.send!(message, undefined, {}, () => {}))
  const worker: PipelineWorker = new PipelineWorker({
    account,
    folder,
    maxDisk,
    components,
    tell,
    log: messageLog(logLevel, line => tell({ type: 'log', line })),
    runtime: {
      clock: systemClock,
      random: systemRandom,
      stdin: new PassThrough().end(),
      stdout: new PassThrough().resume(),
      env: {},
    },
    permitted: {
      files,
      never,
      urls,
      addresses: new AddressRules(addresses, () => worker.ownPorts),
      listen: [],
      credentials: [],
    },
  })
  return worker
}

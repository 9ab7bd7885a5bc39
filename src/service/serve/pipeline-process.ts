import { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { deserialize } from 'node:v8'
import type { AnyDefinition } from '../../core/component.js'
import { messageLog } from '../../daemon/process/log.js'
import { systemRandom } from '../../lib/backoff.js'
import { FROM_CHILD, FrameReader, jsonHead, TO_CHILD } from '../../lib/frames.js'
import { AddressRules } from '../../lib/network/address-rules.js'
import { every, systemClock } from '../../lib/time.js'
import type { BodyBytes } from '../../net/http/events/send-body.js'
import { bodyRoom, freeBody, takeBody } from '../../net/http/server/body-memory.js'
import type { ProcessSetup } from '../ingest/process/account-process.js'
import { shortLine } from '../ingest/process/from-process.js'
import type { FromProcess, ProcessCall } from '../ingest/process/messages.js'
import { PipelineWorker } from '../ingest/worker/pipeline-worker.js'
import { componentsWith } from './service-plugins.js'

/** The program of the process that runs the published pipelines of one account. The service starts it (ingest.ts). */

/** When the service is gone, this process has this many milliseconds to end. After that, the process is killed. */
const END_MS = 3000

// Only the service ends this process, so signals are ignored. A signal to the process group is meant for the service.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

const PORTION_BYTES = 256 * 1024
const NO_LIMIT = Number.POSITIVE_INFINITY

/** Calls that arrive while plugins are being loaded wait for this promise, in their order. */
let opened: Promise<PipelineWorker> | undefined
const answers = new Socket({ fd: FROM_CHILD, readable: false, writable: true })
// The service is gone.
answers.on('error', () => {})

/** Reads bodies directly into their final memory, with room for one more byte. This creates no garbage. */
const reader = new FrameReader(NO_LIMIT, head => {
  const message = deserialize(head) as ProcessSetup | ProcessCall
  if (!('name' in message)) return { most: 0, take: () => begin(message) }
  if (message.name !== 'take') return { most: 0, take: () => receive(message) }
  return {
    most: NO_LIMIT,
    room: size => takeBody(bodyRoom(size + 1)),
    take: bytes => receive(message, { bytes, release: () => freeBody(bytes) }),
  }
})

function begin(setup: ProcessSetup): void {
  opened = componentsWith(setup.plugins).then(components => open(setup, components))
}

function receive(call: ProcessCall, body?: BodyBytes): void {
  void opened!.then(worker => worker.receive(call, body))
}

const buffer = Buffer.allocUnsafeSlow(PORTION_BYTES)
const callback = (size: number) => {
  reader.push(buffer.subarray(0, size))
  return true
}
// When the service closes this pipe or has ended, nobody waits for results any more, so this process ends, too.
new Socket({ fd: TO_CHILD, readable: true, onread: { buffer, callback } } as object)
  .on('error', () => {})
  .on('close', () => {
    every(END_MS, () => process.kill(process.pid, 'SIGKILL'))
    void opened?.then(worker => worker.close())
  })
  .resume()

function tell(message: FromProcess): void {
  if (answers.writable) answers.write(jsonHead(message, 0))
}

function open(
  { account, folder, maxDisk, maxSeries, logLevel, files, never, urls, addresses }: ProcessSetup,
  components: readonly AnyDefinition[],
): PipelineWorker {
  const worker: PipelineWorker = new PipelineWorker({
    account,
    folder,
    maxDisk,
    maxSeries,
    components,
    tell,
    log: messageLog(logLevel, line => tell({ type: 'log', line: shortLine(line) })),
    runtime: {
      clock: systemClock,
      random: systemRandom,
      stdin: new PassThrough().end(),
      stdout: new PassThrough().resume(),
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

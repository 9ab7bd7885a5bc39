import { spawnSync } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Admin, Consumer } from '@platformatic/kafka'
import { HOST } from '../../test/support/address.js'
import { checkout } from '../../test/support/checkout.js'
import { makeServer, type Server } from '../../test/support/server.js'
import { until } from '../../test/support/until.js'
import type { Counts } from '../counting.js'

const TOPIC = 'bench'
const PARTITIONS = 4
/** Each question takes time of the cores that the programs share. */
const POLL_MS = 20

/** Undefined: it was not brought. */
export function brokerProgram(): string | undefined {
  const { status, stdout } = spawnSync(join(checkout, '.ci/servers'), ['where', 'kafka'], { encoding: 'utf8' })
  return status === 0 ? stdout.trim() : undefined
}

/** The Kafka of `.ci/servers`, with an empty topic. */
export class Broker {
  readonly port: number
  readonly #server: Server
  readonly #consumer: Consumer

  private constructor(server: Server, consumer: Consumer) {
    this.port = server.ports[0]!
    this.#server = server
    this.#consumer = consumer
  }

  static async start(folder: string): Promise<Broker> {
    const server = await makeServer(brokerProgram()!, 'kafka', folder)
    const client = { clientId: 'bench', bootstrapBrokers: [`${HOST}:${server.ports[0]}`] }
    const broker = new Broker(server, new Consumer({ ...client, groupId: 'bench' }))
    const admin = new Admin(client)
    try {
      await server.start()
      await until('the topic to be made', async () => {
        const made = await admin.createTopics({ topics: [TOPIC], partitions: PARTITIONS, replicas: 1 }).catch(() => [])
        return made.length > 0
      })
    } catch (error) {
      await broker.close()
      throw error
    } finally {
      await admin.close()
    }
    return broker
  }

  /** The bytes are those of its files, which have heads of messages as well. */
  async counts(): Promise<Counts> {
    await wait(POLL_MS)
    const ends = (await this.#consumer.listOffsets({ topics: [TOPIC] })).get(TOPIC)!
    const folders = ends.map((_, partition) => join(this.#server.folder, `log/${TOPIC}-${partition}`))
    const files = folders.flatMap(folder => readdirSync(folder).map(name => join(folder, name)))
    const sizes = files.filter(path => path.endsWith('.log')).map(path => statSync(path).size)
    const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0)
    return { lines: sum(ends.map(Number)), bytes: sum(sizes) }
  }

  async close(): Promise<void> {
    await this.#consumer.close(true)
    await this.#server.kill()
  }
}

import { z } from 'zod'
import { decodeOption, maxLineBytesOption } from '../../core/codecs/options.js'
import { duration, refuseAt } from '../../core/options/options.js'
import { reaches } from '../../core/options/reach.js'
import { checkServer, replyTimeout, serverOptions } from '../../net/redis/options.js'

const name = () => reaches('nothing', z.string().min(1).max(512))

export const redisSourceOptions = z
  .strictObject({
    ...serverOptions,
    stream: name().describe('Key of the stream.'),
    group: name()
      .prefault('sluice')
      .describe('The consumer group. Sluice creates the group and the stream if they do not exist.'),
    consumer: name()
      .optional()
      .describe(
        'Name within the group. Each daemon needs its own. Default: the name of the host and the id of the source.',
      ),
    read_from: z
      .enum(['beginning', 'end'])
      .prefault('beginning')
      .describe(
        'Where a newly created group begins. A group that Sluice has used and that was lost since begins at `beginning`.',
      ),
    field: name()
      .prefault('message')
      .describe(
        'Which field of an entry contains the line. An entry without this field is read as a JSON object of all its fields.',
      ),
    decode: decodeOption(),
    max_line_bytes: maxLineBytesOption('value'),
    claim_after: duration()
      .prefault('5 Minutes')
      .describe(
        'Takes over entries that another consumer has read, but not acknowledged for this long. Each source renews its own entries three times within this time.',
      ),
    timeout: replyTimeout().prefault('10 Seconds').describe('Time limit for a reply.'),
  })
  .superRefine((redis, context) => {
    checkServer(redis, context)
    if (redis.decode.framing)
      refuseAt(context, ['decode'], `cannot be ${redis.decode.name}, whose records are not text`)
    if (redis.claim_after < 3000) refuseAt(context, ['claim_after'], 'must be at least 3 Seconds')
  })
export type RedisSourceOptions = z.output<typeof redisSourceOptions>

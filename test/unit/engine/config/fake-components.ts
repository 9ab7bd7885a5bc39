import { z } from 'zod'
import { type AnyDefinition, defineDestination, defineProcessor, defineSource } from '../../../../src/core/component.js'
import { LOCAL_DEFAULTS } from '../../../../src/core/options/delivery-options.js'
import { byteSize, duration, fieldPath, regex, secret } from '../../../../src/core/options/options.js'

/** Definitions with every kind of option, so that these tests stand when a real component changes. */

const examples = [{ title: 'As it is', yaml: '' }] as const

const tail = defineSource({
  type: 'tail',
  summary: 'Reads.',
  options: z.strictObject({
    include: z.array(z.string()).min(1).describe('Files.'),
    decode: z.enum(['json', 'text']).default('text').describe('Decoding.'),
    max_line_bytes: byteSize(16, 1024).prefault('1KiB').describe('Longest line.'),
    follow: z.boolean().default(true).describe('Whether to go on.'),
  }),
  examples: [{ title: 'One file', yaml: 'include: [a.log]\n' }],
  create: () => ({ run: async () => {} }),
})

const limit = defineProcessor({
  type: 'limit',
  summary: 'Limits.',
  notes: 'With notes.',
  options: z
    .strictObject({
      limit: z.int().min(1).max(1000).describe('How many.'),
      window: duration(100).describe('How long.'),
      key_field: fieldPath().optional().describe('By what.'),
      pattern: regex().optional().describe('Which | ones.'),
      mode: z.enum(['fixed', 'sliding']).default('fixed').describe('How.'),
      ratio: z.number().gt(0).lt(1).optional().describe('A share.'),
      weights: z
        .record(z.string().regex(/^[a-z]+$/), z.number())
        .prefault({})
        .describe('By name.'),
    })
    .superRefine(({ mode, ratio }, context) => {
      if (mode === 'fixed' && ratio !== undefined) context.addIssue('ratio needs mode: sliding')
    }),
  plan: () => ({ reasons: ['limited'] }),
  reasons: { limited: 'Beyond the limit.' },
  examples: [{ title: 'One a second', yaml: 'limit: 1\nwindow: 1s\n', input: ['{"a":1}'], output: ['{"a":1}'] }],
  create: () => ({ process() {} }),
})

const pass = defineProcessor({
  type: 'pass',
  summary: 'Passes.',
  options: z.strictObject({}),
  examples,
  create: () => ({ process() {} }),
})

const send = defineDestination({
  type: 'send',
  summary: 'Sends.',
  options: z.strictObject({
    url: z.url().optional().describe('Where to.'),
    auth: z
      .discriminatedUnion('type', [
        z.strictObject({ type: z.literal('token'), key: secret().describe('The key.') }),
        z.strictObject({
          type: z.literal('basic'),
          user: z.string().describe('Who.'),
          password: secret().describe('Word.'),
        }),
      ])
      .optional()
      .describe('With what.'),
    targets: z
      .array(z.strictObject({ host: z.string().min(1).describe('Name.'), port: z.int().max(65535).describe('Port.') }))
      .max(2)
      .optional()
      .describe('Others.'),
    via: z
      .union([
        z.strictObject({ by: z.literal('post'), pace: z.int().describe('Speed.'), size: z.int().describe('Size.') }),
        z.strictObject({ by: z.literal('hand') }),
      ])
      .optional()
      .describe('Which way.'),
    timeout: duration().prefault('5 Seconds').describe('Its own patience.'),
  }),
  examples,
  create: () => ({ write: async () => {} }),
})

const keep = defineDestination({
  type: 'keep',
  summary: 'Keeps.',
  options: z.strictObject({ path: z.string().min(1).describe('Where.') }),
  examples: [{ title: 'Here', yaml: 'path: ./out\n' }],
  delivery: LOCAL_DEFAULTS,
  create: () => ({ write: async () => {} }),
})

export const components: readonly AnyDefinition[] = [tail, limit, pass, send, keep]

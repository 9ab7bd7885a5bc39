import { z } from 'zod'
import { duration } from '../../core/options/options.js'

/** Defines the section `tests`: input events, and the events that each component is expected to pass on. */

const fields = z.record(z.string(), z.unknown())
const event = z.union([z.string(), fields], {
  error: 'must be a line of text, or a mapping: the fields of an event',
})

const step = z.strictObject({
  at: duration(0).prefault('0 Seconds').describe('Time of the step since the start of the test.'),
  into: z.string().min(1).describe('The source that emits these events.'),
  events: z
    .array(event)
    .min(1)
    .max(100_000)
    .describe('Lines as the source would read them. A mapping stands for a line of JSON.'),
  backlog: z
    .boolean()
    .default(false)
    .describe(
      'Whether the source reads these events while it catches up, as after a stop: see `on_backlog` of a throttle.',
    ),
})

const expected = z.union([z.int().min(0), z.array(event)], {
  error: 'must be a number of events, or a list of events',
})

const configTest = z.strictObject({
  name: z.string().min(1).describe('The name of the test in the output.'),
  steps: z
    .array(step)
    .min(1)
    .superRefine((steps, context) => {
      for (let i = 1; i < steps.length; i++) {
        if (steps[i]!.at < steps[i - 1]!.at)
          context.addIssue({ code: 'custom', path: [i, 'at'], message: 'must not be earlier than the previous step' })
      }
    })
    .describe(
      'The input, ordered by time. The next step begins when each event of this step is processed or waits for room in a throttle. After the last step, time advances until no event waits.',
    ),
  expect: z
    .record(z.string(), expected)
    .describe(
      'The events that leave a component or side output (`limit_app.discarded`), or that reach a destination: their number, or a list in order. A mapping checks only its fields; a text must equal the whole line.',
    ),
})
export type ConfigTest = z.output<typeof configTest>
export type TestEvent = z.output<typeof event>

export const tests = z
  .array(configTest)
  .optional()
  .describe('Tests of the configuration, which `sluice test` runs. The daemon does not use them.')

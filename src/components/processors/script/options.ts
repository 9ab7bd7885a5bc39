import { z } from 'zod'
import { byteSize, duration, refuse } from '../../../core/options/options.js'
import { reaches } from '../../../core/options/reach.js'
import { syntaxProblem } from './syntax.js'

const OUTPUT = /^[a-z][a-z0-9_]*$/

export const scriptOptions = z
  .strictObject({
    file: reaches('code', z.string().min(1))
      .optional()
      .describe(
        'A module in JavaScript or TypeScript, whose default export is the function. A reload loads it again, with all that it imports.',
      ),
    code: reaches('code', z.string().min(1))
      .superRefine((code, context) => {
        const problem = syntaxProblem(code)
        if (problem !== undefined) refuse(context, problem)
      })
      .optional()
      .describe(
        'The function in JavaScript: an expression, or statements of which the last is one. In place of `file`.',
      ),
    per: z
      .enum(['event', 'batch'])
      .default('event')
      .describe('event: the function gets an event. batch: it gets an array, and returns one with a result for each.'),
    outputs: z
      .array(reaches('nothing', z.string().regex(OUTPUT, { error: 'must be made of a-z, 0-9 and _' })))
      .default([])
      .describe("Outputs besides the main one, which `context.to('NAME', event)` sends events to."),
    timeout: duration(10)
      .prefault('1 Seconds')
      .describe('How long the function may take for a batch. The events that have no result by then fail.'),
    concurrency: z
      .int()
      .min(1)
      .max(1000)
      .default(1)
      .describe('How many calls of a function that waits may run at a time. 1: one after the other, in order.'),
    max_memory: byteSize(16 * 1024 * 1024)
      .prefault('256MiB')
      .describe(
        'Memory for the objects, texts and buffers of the script, beside what Node.js takes. One that needs more is started again.',
      ),
  })
  .superRefine(({ file, code }, context) => {
    if ((file === undefined) === (code === undefined)) refuse(context, 'needs either file or code')
  })
export type ScriptOptions = z.output<typeof scriptOptions>

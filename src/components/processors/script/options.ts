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
        'JavaScript or TypeScript module whose default export is the function. A reload loads it and its imports again.',
      ),
    code: reaches('code', z.string().min(1))
      .superRefine((code, context) => {
        const problem = syntaxProblem(code)
        if (problem !== undefined) refuse(context, problem)
      })
      .optional()
      .describe(
        'Instead of `file`: the function in JavaScript, as an expression, or as statements that end with an expression.',
      ),
    per: z
      .enum(['event', 'batch'])
      .default('event')
      .describe(
        'event: the function gets one event. batch: it gets an array, and returns an array with a result for each event.',
      ),
    outputs: z
      .array(reaches('nothing', z.string().regex(OUTPUT, { error: 'must be made of a-z, 0-9 and _' })))
      .default([])
      .describe("Outputs besides the main one. `context.to('NAME', event)` sends events to them."),
    timeout: duration(10)
      .prefault('1 Seconds')
      .describe('Time limit for the function to process a batch. Events fail if they do not have a result by then.'),
    concurrency: z
      .int()
      .min(1)
      .max(1000)
      .default(1)
      .describe('Maximum number of concurrent calls of an asynchronous function. 1: one after the other, in order.'),
    max_memory: byteSize(16 * 1024 * 1024)
      .prefault('256MiB')
      .describe(
        'Memory limit for the objects, texts and buffers of the script, without the memory of Node.js itself. A script that exceeds it is restarted.',
      ),
  })
  .superRefine(({ file, code }, context) => {
    if ((file === undefined) === (code === undefined)) refuse(context, 'needs either file or code')
  })
export type ScriptOptions = z.output<typeof scriptOptions>

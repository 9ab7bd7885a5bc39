import { z } from 'zod'
import { TYPES, TYPES_TEXT } from '../../../core/field-types.js'
import { fieldPath, refuseAt } from '../../../core/options/options.js'
import { reaches } from '../../../core/options/reach.js'
import { checkCodecOptions, codecShape } from './codec-options.js'

const MOST_TRIED = 16
const MOST_TYPES = 1000
export const SHOWN_NAMES = 20

const attempt = z
  .strictObject({ ...codecShape, codec: codecShape.codec.describe('The codec.') })
  .superRefine((given, context) => checkCodecOptions(given, context))

export const parseProcessorOptions = z
  .strictObject({
    field: fieldPath()
      .prefault('.message')
      .describe('Field to read. A value that is not a string is read as its JSON.'),
    ...codecShape,
    codec: codecShape.codec
      .optional()
      .describe('Format of the text: one of the [codecs](#codecs). Write the options of the codec beside `codec`.'),
    try: z
      .array(attempt)
      .min(1)
      .max(MOST_TRIED)
      .optional()
      .describe(
        'Instead of `codec`: several codecs, each with its options. The first one that can read the text is used.',
      ),
    target: fieldPath()
      .optional()
      .describe(
        'Field that receives the result as an object. Default: the result is merged into the event. Existing values are replaced in both cases. The codec timestamp writes one text, by default to `.timestamp`.',
      ),
    types: z
      .record(reaches('nothing', z.string().min(1)), z.enum(TYPES))
      .refine(types => Object.keys(types).length <= MOST_TYPES, { error: `must have at most ${MOST_TYPES} fields` })
      .default({})
      .describe(
        `Types by field name: ${TYPES_TEXT}. If a value cannot be converted, the text counts as unreadable for this codec.`,
      ),
    remove_field: z
      .boolean()
      .default(false)
      .describe(
        'Whether to remove the field after its text was read. If the text contains a field of this name, that field stays.',
      ),
  })
  .superRefine((given, context) => {
    const { codec, try: tried } = given
    if (codec !== undefined && tried)
      refuseAt(context, ['try'], 'cannot be used with codec; move the codec into the list')
    if (codec === undefined && !tried)
      refuseAt(context, ['codec'], 'is missing; set codec, or set try to a list of codecs')
    checkCodecOptions(given, context)
  })
export type ParseOptions = z.output<typeof parseProcessorOptions>

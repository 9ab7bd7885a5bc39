import { z } from 'zod'
import { type ComponentContext, defineProcessor } from '../../core/component.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import { parseFieldPath } from '../../core/event/field-path.js'
import { fieldPath, refuse, refuseAt, regex, secret } from '../../core/options/options.js'
import { filePath, reaches } from '../../core/options/reach.js'
import { Pattern } from '../../lib/pattern.js'
import { keyFileWarnings } from '../../net/key.js'
import { KEY_MARKS, PRESETS, SECRET_NAMES } from './redact/presets/presets.js'
import type { RedactProcessor } from './redact/redact-processor.js'

function inCode(texts: readonly string[]): string {
  return texts.map(text => `\`${text}\``).join(', ')
}

function listKeys(): string {
  const services = [...new Set(KEY_MARKS.map(({ service }) => service))]
  const marksOf = (of: string) => KEY_MARKS.filter(({ service }) => service === of).flatMap(m => m.marks.split(' '))
  return services.map(service => `${service} (${inCode(marksOf(service))})`).join('; ')
}

/** A processing error may quote the value of any field, for example when a script throws. */
const REASON = parseFieldPath('.processing_error')
const MOST_FIELDS = 64
const MOST_PATTERNS = 64

const credential = reaches(
  'credentials',
  z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._@-]*$/, { error: 'must be the name of a systemd credential' }),
)

const hash = z
  .strictObject({
    key_file: filePath().optional().describe('File that holds the key. A trailing newline is ignored.'),
    credential: credential.optional().describe('Name of a systemd credential (LoadCredential=) that holds the key.'),
    key: secret().optional().describe('The key itself. Prefer an environment variable, as in ${REDACT_KEY}.'),
  })
  .superRefine((hash, context) => {
    const given = (['key', 'key_file', 'credential'] as const).filter(name => hash[name] !== undefined)
    if (given.length !== 1)
      refuse(context, `needs exactly one of key, key_file and credential; ${given.join(' and ') || 'none'} given`)
  })

const pattern = z.strictObject({
  name: reaches(
    'nothing',
    z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, { error: 'must be letters, digits and _.-' }),
  ).describe('Name of the pattern in metrics.'),
  pattern: regex().describe('Regular expression whose matches are redacted.'),
  ignore_case: z.boolean().prefault(false).describe('Whether upper and lower case are treated as equal.'),
})

const options = z
  .strictObject({
    fields: z
      .union([z.literal('all'), z.array(fieldPath()).min(1).max(MOST_FIELDS)], {
        error: 'must be all, or a list of field paths, as in [.message]',
      })
      .prefault('all')
      .describe(
        'Where to search: all values of the event, or the values at and below these paths. `.processing_error` is always searched, because it may quote any value.',
      ),
    names: z
      .boolean()
      .prefault(false)
      .describe(
        'Whether to search field names, too: with `fields: all`, all names; otherwise, the names below the paths in `fields`. Useful if a `parse` has taken field names from a text, as the codecs `logfmt` and `key_value` do.',
      ),
    presets: z.array(z.enum(PRESETS)).prefault([]).describe('Built-in patterns to search for.'),
    patterns: z.array(pattern).max(MOST_PATTERNS).prefault([]).describe('Additional patterns to search for.'),
    action: z
      .union(
        [
          z.literal('mask'),
          z.strictObject({
            mask: z
              .strictObject({
                keep_last: z
                  .int()
                  .min(1)
                  .max(16)
                  .describe('Number of characters to keep at the end of a match, if it has at least twice as many.'),
              })
              .describe('Replaces a match with `***` and its last characters.'),
          }),
          z.strictObject({
            replace: reaches('nothing', z.string().max(256)).describe('Replaces a match with this text.'),
          }),
          z.strictObject({
            hash: hash.describe(
              'Replaces a match with the HMAC-SHA256 of its text without escapes, in hexadecimal digits.',
            ),
          }),
        ],
        { error: 'must be mask, or one of {mask: {keep_last: 4}}, {replace: TEXT} and {hash: {key_file: FILE}}' },
      )
      .prefault('mask')
      .describe('What replaces a match. mask: `***`.'),
  })
  .superRefine(({ presets, patterns }, context) => {
    if (presets.length + patterns.length === 0) refuse(context, 'needs presets or patterns')
    const names = [...presets, ...patterns.map(({ name }) => name)]
    const twice = names.find((name, i) => names.indexOf(name) < i)
    if (twice === undefined) return
    const place = patterns.findIndex(({ name }) => name === twice)
    refuseAt(
      context,
      place < 0 ? ['presets'] : ['patterns', place, 'name'],
      'is used twice; give each rule a name of its own',
    )
  })

export const redact = defineProcessor({
  type: 'redact',
  summary: 'Removes secrets and personal data from events.',
  notes:
    'All rules look at the values as they arrive, after JSON escapes are decoded; overlapping matches are replaced together. Names of fields are searched with `names: true`. With `fields: all`, names that a codec other than json found in a line are searched too, because any word of a line may become a name. Two fields may then have the same name; most readers use the last one. An event without a match keeps its bytes. ' +
    'A number with a match becomes a string; a number with an exponent is also searched without the exponent. With `encoding: raw`, a line of text is written as the redacted text, and a line of any other codec as the JSON of the redacted event. ' +
    'If several fields have the same name, each is redacted. `.raw`, the bytes of a line that is not UTF-8, is redacted in the same way. Disk buffers, the dead-letter queue and later outputs do not contain the removed text. ' +
    'If a line was divided because of its length, at least 64 bytes on both sides of each cut are replaced, up to the next white space, and counted as `divided_line`: the cut may be within a secret.\n\n' +
    'A value is also searched without its escapes, even if they are escaped again: `%3D`; `\\n`, `\\"`, `\\u003d` and `\\x3d`, as in JSON within JSON; `#012`, as rsyslog writes it; `&#61;`; colors of a terminal; soft hyphens and other characters without a width; and the wide digits, letters, dots, dashes and @ of East Asian texts. The remaining text keeps its escapes. Base64 and compressed data are not searched: they would have to be decoded first, and any long word may be base64. Quoted-printable, as in `a=40example.com`, is not searched either: in logs, `=40` is mostly the value of a name.\n\n' +
    'No preset finds passwords, cookies and session ids: use `patterns`. A secret that is divided into several fields, such as the unquoted words `Bearer a1b2c3` in logfmt, is not found.\n\n' +
    'Presets:\n\n' +
    '- `card`: card numbers with their check digit (Luhn) and the first digits of a brand: American Express (34, 37), Diners Club (30, 36, 38, 39), Discover, Maestro and UnionPay (50, 56 to 69), JCB (3528 to 3589, 2131, 1800), Mastercard (51 to 55, 2221 to 2720), Mir (2200 to 2205), RuPay and UnionPay (81, 82), Troy (9792), UATP (1) and Visa (4). They have 16 digits, except for American Express, UATP and old JCB (2131, 1800) numbers (15), Diners Club (also 14) and Visa (also 13); Maestro numbers that begin with 5018, 5020, 5038, 5893, 6304, 6759 or 6761 to 6763 have 12 to 19, JCB and Mir numbers 16 to 19, and UnionPay (62) also 19. Other numbers of 17 to 19 digits are found only if they are written in groups, because ids often have this length. Groups may have a space, dash, dot, slash or plus sign between them. Digits in a hash or UUID do not count.\n' +
    '- `email`: addresses whose host has a dot, or is an address in brackets. Before the @, they have letters, digits, apostrophes and `._%+-~`; of a name with other characters, only the end is found.\n' +
    '- `ipv4`, `ipv6`: network addresses. Five numbers with dots, as `192.0.2.1.443` of tcpdump, may be a version, and are not found.\n' +
    '- `mac`: hardware addresses, as `00:1a:2b:3c:4d:5e`, `00-1a-2b-3c-4d-5e`, `001a.2b3c.4d5e` or `001a-2b3c-4d5e`. Without dividers, they may be any number in hexadecimal digits, and are not found.\n' +
    '- `jwt`: JSON Web Tokens, signed, encrypted or neither: parts that begin with `eyJ` and have dots between them.\n' +
    '- `bearer`: the credentials after `Authorization`, also with another word before it, as in `Proxy-Authorization` or `http_authorization`: in a header, as a member of JSON or as a field of logfmt. All words go, whatever the scheme is, but `Bearer` and `Basic` stay. Without quotes, credentials are one word, or two and the parameters after them; after an equals sign or in a URL, an `&` ends them. All items of a list go. Elsewhere, the word after `Bearer` or `Basic`, if it has 20 characters, or at least 6 and not only letters, or if it is a user and password in base64. Other words are not found, because they may be ordinary text, as in `Bearer of news`.\n' +
    '- `private_key`: PEM blocks; if the last line is missing, up to the end of the value. A block whose lines are separate events is not found: join the lines with `multiline`.\n' +
    `- \`api_key\`: keys with a beginning that one of these services documents: ${listKeys()}. Also the values of ${inCode(SECRET_NAMES)}; without a colon or equals sign, they have at least 20 characters.\n` +
    '- `iban`: account numbers with their check digits, also in groups, as for `card`.\n' +
    '- `phone`: numbers with a plus sign, and numbers of North America with dividers. Other numbers are not found, because they may be any number.\n\n' +
    'Patterns are regular expressions of JavaScript without back-references, and take a time proportional to the length of the value. A value that is too long for a pattern is replaced whole. ' +
    'The key of hashes is read when the component starts.',
  options,
  usesFields: ({ fields }) => fieldsIn({ fields }, { fields: 'nothing is redacted there' }),
  examples: [
    {
      title: 'Card numbers, addresses and tickets in messages',
      yaml: `fields: [.message]\npresets: [card, email, ipv4]\npatterns: [{ name: ticket, pattern: 'T-\\d+' }]\n`,
      input: [
        '{"message":"paid with 4111 1111 1111 1111 by a.b@example.com","to":"a.b@example.com"}',
        '{"message":"T-4711 from 192.0.2.7: order 4111111111111112"}',
        '{"message":4111111111111111}',
      ],
      output: [
        '{"message":"paid with *** by ***","to":"a.b@example.com"}',
        '{"message":"*** from ***: order 4111111111111112"}',
        '{"message":"***"}',
      ],
    },
    {
      title: 'The last four digits of card numbers stay, wherever they are',
      yaml: 'presets: [card]\naction: { mask: { keep_last: 4 } }\n',
      input: ['{"pay":[{"pan":"4111-1111-1111-1111"}],"4111111111111111":1}'],
      output: ['{"pay":[{"pan":"***1111"}],"4111111111111111":1}'],
    },
    {
      title: 'Field names, too: logfmt can make a name of any word',
      yaml: 'presets: [email]\nnames: true\n',
      input: ['{"message":"to a@example.com=sent id=1","a@example.com":"sent","id":"1"}'],
      output: ['{"message":"to ***=sent id=1","***":"sent","id":"1"}'],
    },
    {
      title: 'A hash with a secret key: readers can distinguish users, but cannot find their addresses',
      yaml: 'presets: [email]\naction: { hash: { key: an-example } }\n',
      input: ['{"user":"a@example.com"}'],
      output: ['{"user":"bbc7b82a39eb8b3c318bd741986bce88b6733ddb96543eb93e5976e68dad2a5f"}'],
    },
  ],
  create,
  checks: async () => ({
    warnings: ({ action }) =>
      typeof action === 'object' && 'hash' in action ? keyFileWarnings(action.hash, ['action', 'hash']) : [],
  }),
  explains: async () => {
    const { explainRedact } = await import('./redact/redact-processor.js')
    return { findings: async (options, context) => explainRedact(await create(options, context)) }
  },
})

async function create(
  { fields, names, presets, patterns, action }: z.output<typeof options>,
  context: ComponentContext,
): Promise<RedactProcessor> {
  const [{ RedactProcessor }, { SecretFinder }, { makeAction }, { EVERYTHING, selectionOf }] = await Promise.all([
    import('./redact/redact-processor.js'),
    import('./redact/finder.js'),
    import('./redact/action.js'),
    import('./redact/selection.js'),
  ])
  const named = patterns.map(({ name, pattern, ignore_case }) => ({
    name,
    pattern: ignore_case ? new Pattern(pattern.source, 'iu') : pattern,
  }))
  const selection = fields === 'all' ? EVERYTHING : selectionOf([...fields, REASON])
  const replace = await makeAction(action, context.reach)
  return new RedactProcessor(new SecretFinder(presets, named), replace, selection, names, context)
}

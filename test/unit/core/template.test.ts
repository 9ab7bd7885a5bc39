// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Sluice, not of the test
import t from 'tap'
import { z } from 'zod'
import { FieldReader } from '../../../src/core/event/field-reader.js'
import {
  compileTemplate,
  parseTemplate,
  TemplateError,
  TemplateMembers,
  template,
  templatePaths,
} from '../../../src/core/template.js'
import { GrowingBytes } from '../../../src/lib/formats/growing-bytes.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'
import { batchOf } from '../../support/batches.js'
import { valuesOf } from '../../support/values-of.js'

/** The text that a template gives for a line, read from its bytes, and from an event that was changed. */
function textsOf(text: string, line: string): string[] {
  const wanted = new WantedNames()
  const compiled = compileTemplate(parseTemplate(text), path => new FieldReader(path, wanted))
  const batch = batchOf([line, '{"changed":1}'], { wanted })
  batch.modify(1, JSON.parse(line))
  return [0, 1].map(i => {
    const sink = new GrowingBytes()
    sink.add(Buffer.from('<'), 0, 1)
    compiled.append(batch, i, sink)
    return sink.bytes.toString('utf8', 1, sink.length)
  })
}

t.test('the text of a template, whatever way its fields are read', async t => {
  const line =
    '{"app":"cart","n":5,"f":1.50,"yes":true,"nil":null,"none":"","o":{ "a": [1, "é"] },"esc":"a\\n\\"é","x y":"q","l":["i"]}'
  const cases: readonly (readonly [text: string, expected: string])[] = [
    ['', ''],
    ['plain', 'plain'],
    ['${.app}', 'cart'],
    ['${.app}-${.n}', 'cart-5'],
    ['<${.f}|${.yes}|${.nil}|${.o}>', '<1.5|true|null|{"a":[1,"é"]}>'],
    ['${.o.a[1]}${.l[0]}${."x y"}', 'éiq'],
    ['${.esc}', 'a\n"é'],
    ['[${.missing}][${.none}][${.o.b.c}]', '[][][]'],
    ['${.missing:-none} ${.none:-empty} ${.nil:-null here} ${.app:-no}', 'none empty null here cart'],
    ['${.missing:-}', ''],
    ['${.n:-7}${.o:-x}', '5{"a":[1,"é"]}'],
    ['$${.app} costs $5, $${NAME}, {}', '${.app} costs $5, ${NAME}, {}'],
    ['${.app}${.app}', 'cartcart'],
    ['é${.app}😀', 'écart😀'],
  ]
  for (const [text, expected] of cases) t.same(textsOf(text, line), [expected, expected], text)
})

t.test('a number beyond the range of a double is as it was written, wherever it is in the line', async t => {
  const line = '{"n":1e400,"o":{ "l" : [-1E+999, null, 1.0, "1e400"] }}'
  const [text] = textsOf('${.n} ${.o} ${.o.l} ${.o.l[0]}', line)
  t.equal(text, '1e400 {"l":[-1E+999,null,1,"1e400"]} [-1E+999,null,1,"1e400"] -1E+999')
})

t.test('an integer has all of its digits', async t => {
  const [text] = textsOf('${.id} ${.o.l[0]} ${.o}', '{"id":12345678901234567890,"o":{"l":[9007199254740993]}}')
  t.equal(text, '12345678901234567890 9007199254740993 {"l":[9007199254740993]}')
})

t.test('members of a JSON object: empty ones are left out, and no two of them are confused', t => {
  const wanted = new WantedNames()
  const texts = { a: 'x "y"', none: '', app: '${.app}', b: '${.b:-d}', host: '${.host}' }
  const templates = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, parseTemplate(text)]))
  const members = new TemplateMembers(templates, path => new FieldReader(path, wanted))
  const lines = ['{"app":"c\\u0000","b":"\\n","host":"h"}', '{"app":"c","b":"\\u0000\\n","host":"h"}', '{}']
  const batch = batchOf(lines, { wanted })
  t.same(
    lines.map((_, i) => JSON.parse(`{${members.of(batch, i)}}`)),
    [
      { a: 'x "y"', app: 'c\0', b: '\n', host: 'h' },
      { a: 'x "y"', app: 'c', b: '\0\n', host: 'h' },
      { a: 'x "y"', b: 'd' },
    ],
  )
  t.equal(new Set(lines.map((_, i) => members.key(batch, i))).size, 3)
  t.equal(
    new TemplateMembers({ app: parseTemplate('${.app}') }, path => new FieldReader(path, wanted)).of(batch, 2),
    '',
  )
  t.end()
})

t.test('what is wrong with a template, and where', async t => {
  const cases: readonly (readonly [text: string, column: number, message: RegExp])[] = [
    ['a ${NAME}', 3, /"\$\{" begins a field, as in \$\{\.app\} or \$\{\.app:-none\}; write \$\$\{ for "\$\{" itself/],
    ['${', 1, /begins a field/],
    ['${.', 4, /expected a field name/],
    ['x${.app', 8, /expected "}" or ":-" after the field; write \$\{\.app\} or \$\{\.app:-none\}/],
    ['${.app:none}', 7, /expected "}" or ":-"/],
    ['${.app:-none', 7, /expected "}" or ":-"/],
    ['${.a b}', 5, /expected "}"/],
    ['${.a[x]}', 5, /expected an index/],
    ['${.a}'.repeat(65), 321, /more than 64 fields/],
    ['x'.repeat(20_000), 1, /longer than 16384 characters/],
  ]
  for (const [text, column, message] of cases) {
    try {
      parseTemplate(text)
      t.fail(`${text} was taken`)
    } catch (error) {
      t.ok(error instanceof TemplateError)
      t.match(error, { message, column }, text.slice(0, 50))
    }
  }
})

t.test('a template makes one reader for each field, and names its fields', async t => {
  const parsed = parseTemplate('${.a}${.b:-x}${.a}')
  const wanted = new WantedNames()
  const made: string[] = []
  compileTemplate(parsed, path => {
    made.push(path.text)
    return new FieldReader(path, wanted)
  })
  t.same(made, ['.a', '.b'])
  t.same(valuesOf(templatePaths(parsed), 'text'), ['.a', '.b', '.a'])
})

t.test('as an option', async t => {
  const options = z.strictObject({ id: template().optional() })
  t.same(options.parse({ id: '${.a}-' }).id?.parts, [
    { path: { text: '.a', segments: ['a'] }, fallback: '', hasFallback: false },
    '-',
  ])
  t.match(options.safeParse({ id: '${a}' }).error?.issues, [{ path: ['id'], message: /\(column 1 of the text\)$/ }])
  t.match(z.toJSONSchema(options, { io: 'input' }), { properties: { id: { type: 'string', title: 'template' } } })
})

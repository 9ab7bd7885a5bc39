/** Events of a size, in bytes, on which work may take longer than their size says, and values that are easily lost. */

type Sized = (size: number) => string
/** What it is, and one line of JSON. */
export type Poison = readonly [title: string, line: Sized]

const times = (size: number, text: string) => text.repeat(Math.max(1, Math.floor(size / text.length)))
const quoted = (text: string) => `"${text}"`
const list = (size: number, item: string) => `[${times(size, `${item},`)}${item}]`

/** As many members as have room in `size` bytes. */
function members(size: number, member: (i: number) => string): string {
  const all: string[] = []
  for (let length = 0; length < size; ) length += all[all.push(member(all.length)) - 1]!.length + 1
  return all.join()
}

function nested(size: number, open: string, inside: string, close: string): string {
  const levels = Math.max(1, Math.floor(size / (open.length + close.length)))
  return open.repeat(levels) + inside + close.repeat(levels)
}

/** Names of one length, with the same bytes where a hash of few bytes looks. */
const alike = (i: number) => `"a${String(i).padStart(7, '0')}${'b'.repeat(23)}"`

/** Members of an object. */
const MEMBERS: Readonly<Record<string, Sized>> = {
  'many names': size => members(size, i => `"n${i}":${i}`),
  'many numbers as names': size => members(size, i => `"${i * 7919}":1`),
  'many names with dots': size => members(size, i => `"a.b${i}.c":1`),
  'many names below one with dots': size => members(size, i => `"a.a.a.a.a.a${i}":1`),
  'many names that are alike': size => members(size, i => `${alike(i)}:1`),
  'many names with escapes': size => members(size, i => `"\\u0061\\n${i}":"\\u0062"`),
  'many names that become equal': size =>
    members(size, i => `"${String.fromCharCode(0xc0 + (i % 500))}${'x'.repeat(31)}${i}":"v"`),
  'one name many times': size => members(size, i => `"a":${i}`),
  'one name many times, and with escapes': size => members(size, i => (i % 2 ? `"a":"${i}"` : `"\\u0061":"\\n"`)),
  'one name of the whole size': size => `"${'n'.repeat(size)}":1`,
  'one name of escapes': size => `"${times(size, '\\u00e4')}":1`,
  '__proto__ many times': size => members(size, i => `"__proto__":{"a":${i}}`),
  'half surrogates as names': size => members(size, i => `"\\ud800${i}":"\\udc00"`),
  'NUL in names': size => members(size, i => `"\\u0000${i}":"\\u0000"`),
  'dots as names': size => members(size, i => `"${'.'.repeat(i % 90)}":1`),
  'white space': size => `"a"${' '.repeat(size / 2)}:${' '.repeat(size / 2)}1`,
}

/** The texts of strings. */
export const TEXTS: Readonly<Record<string, Sized>> = {
  letters: size => 'a'.repeat(size),
  'blanks and a letter': size => `${' '.repeat(size)}a`,
  words: size => times(size, "a=1 b='2' "),
  digits: size => times(size, '1'),
  'digits and blanks': size => times(size, '1 '),
  dots: size => times(size, '.'),
  'parts of addresses': size => times(size, '10.1.2.3.'),
  'at signs': size => times(size, 'a@'),
  colons: size => times(size, '::'),
  brackets: size => times(size, '[a b='),
  'four bytes each': size => times(size / 2, '\u{1f600}'),
  'a time with many digits': size => `2026-01-31T12:00:00.${times(size, '1')}Z`,
}

const VALUES: Readonly<Record<string, Sized>> = {
  'an array as deep as its size': size => nested(size, '[', '', ']'),
  'an object as deep as its size': size => nested(size, '{"a":', '1', '}'),
  'an object as deep as its size, names twice': size => nested(size, '{"a":1,"a":', '1', ',"b":1,"b":1}'),
  'an object as deep as its size, __proto__': size => nested(size, '{"__proto__":', '1', '}'),
  'deep arrays': size => `[${Array.from({ length: 16 }, () => nested(size / 16, '[', '', ']')).join()}]`,
  'objects of 20 levels, names twice': size => list(size, nested(460, '{"a":', '1', ',"b":1,"b":1}')),
  'objects of 20 levels, names that are alike': size =>
    list(size, nested(2000, '{"a":', '1', `,${alike(1)}:1,${alike(2)}:1}`)),
  'an object with many names in an array': size => `[{${MEMBERS['many names']!(size)}}]`,
  ...ofMembers('an object: ', text => `{${text}}`),
  ...ofMembers('two levels: ', text => `{"a":{${text}}}`),
  ...Object.fromEntries(Object.entries(TEXTS).map(([title, text]) => [title, (size: number) => quoted(text(size))])),
  quotes: size => quoted(times(size, '\\"')),
  backslashes: size => quoted(times(size, '\\\\')),
  'line ends': size => quoted(times(size, '\\r\\n')),
  NUL: size => quoted(times(size, '\\u0000')),
  'half surrogates': size => quoted(times(size, '\\udc00\\ud800')),
  'text of deep JSON': size => JSON.stringify(nested(size / 2, '{"a":', '1', '}')),
  'a number of digits': size => times(size, '9'),
  'a small number': size => `0.${times(size, '0')}1`,
  'a long exponent': size => `1e-${times(size, '9')}`,
  'numbers at the edges': size => list(size, '9007199254740993,-9223372036854775809,1e400,-0,5e-324'),
  'a list': size => list(size, '"a"'),
  'a list of lists': size => list(size, '[[]]'),
  'a list of objects': size => list(size, '{"a":1}'),
}

function ofMembers(before: string, around: (text: string) => string): Record<string, Sized> {
  return Object.fromEntries(
    Object.entries(MEMBERS).map(([title, text]) => [before + title, size => around(text(size))] as const),
  )
}

/** Values without a size, as JSON. */
const EDGES = [
  ...['""', '"\\u0000"', '"\\ud800"', '"__proto__"', '{"__proto__":{"a":1}}', '{"toString":2,"valueOf":1}', '{"":1}'],
  ...['{}', '[]', 'null', '0', '-0', '-1', '1e400', '-1e400', '5e-324', '1e21', '9007199254740993', '0.1e1'],
  ...['-9223372036854775808', '18446744073709551616', '253402300800000', '8640000000000001', '-8640000000000001'],
  ...['1e300', '"0000-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999999Z"', '"+275760-09-13T00:00:00.001Z"'],
  ...['"-271821-04-20T00:00:00Z"', '"1969-12-31T23:59:59.999Z"', '"2026-02-29T00:00:00Z"', '"2016-12-31T23:59:60Z"'],
  ...['"2026-01-31T12:00:00+99:99"', '"31/Jan/2026:12:00:00 +0100"', '"NaN"', '"Infinity"', '"1e999"'],
]

/** Lines that have each value in each of the fields `names`, and each set of members beside these fields. */
export function poisons(names: readonly string[]): Poison[] {
  const own = names.map(name => JSON.stringify(name))
  const inEach = (value: Sized) => (size: number) =>
    `{${own.map(name => `${name}:${value(Math.floor(size / own.length))}`).join()}}`
  const ownTimes = (name: (i: number) => string) => (size: number) => `{${members(size, i => `${name(i)}:"\\n${i}"`)}}`
  return [
    ...Object.entries(MEMBERS).map(([title, text]): Poison => [title, size => `{"message":"m",${text(size)}}`]),
    ...Object.entries(MEMBERS).map(([title, text]): Poison => [`only ${title}`, size => `{${text(size)}}`]),
    ...Object.entries(VALUES).map(([title, value]): Poison => [`fields: ${title}`, inEach(value)]),
    ['its fields many times', ownTimes(i => own[i % own.length]!)],
    [
      'its fields, deep',
      size => `{${own.map(name => `${name}:${nested(size / own.length, `{${name}:`, '1', '}')}`).join()}}`,
    ],
  ]
}

export function edges(names: readonly string[]): string[] {
  return EDGES.map(value => `{${names.map(name => `${JSON.stringify(name)}:${value}`).join()}}`)
}

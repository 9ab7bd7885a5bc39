import t from 'tap'
import { KeyPattern } from '../../../../src/components/throttle/key-pattern.js'
import { seeded } from '../../../support/seeded.js'

t.test('what patterns match', async t => {
  for (const [source, matching, others] of [
    ['batch-*', ['batch-', 'batch-1', 'batch-a/b\n'], ['batch', 'xbatch-1', 'Batch-1']],
    ['*-batch', ['-batch', 'a-batch'], ['-batch1', '']],
    ['a*b*c', ['abc', 'a1b2c', 'abbcc'], ['acb', 'ab', 'xabc']],
    ['a?c', ['abc', 'a\u{1f600}c', 'a?c'], ['ac', 'abbc']],
    ['[a-c]1', ['a1', 'b1', 'c1'], ['d1', '-1', 'a']],
    ['[!a-c]1', ['d1', '-1', '!1'], ['a1', '1']],
    ['[]x-]', [']', 'x', '-'], ['a']],
    ['[\\]a]', [']', 'a'], ['\\']],
    ['{web,db}-1', ['web-1', 'db-1'], ['web', 'web,db-1']],
    ['{a,{b,c}*}', ['a', 'b', 'c9'], ['a9', '']],
    ['*{a,b}c', ['ac', 'xbc'], ['abd', 'c']],
    ['*{a,bc}', ['a', 'xbc'], ['b', 'ac']],
    ['*[ab]', ['a', 'cb'], ['', 'bc']],
    ['ab*bc', ['abbc'], ['abc']],
    ['a.b+c$(|)^/', ['a.b+c$(|)^/'], ['aXb+c$(|)^/']],
    ['\\*\\[\\{', ['*[{'], ['a[{']],
    ['a}b,c]', ['a}b,c]'], ['ab']],
    ['*', ['', 'a', '\n', '\ud800'], []],
  ] as const) {
    const pattern = new KeyPattern(source)
    for (const text of matching) t.ok(pattern.test(text), `${source} matches ${JSON.stringify(text)}`)
    for (const text of others) t.notOk(pattern.test(text), `${source} does not match ${JSON.stringify(text)}`)
  }
})

t.test('alternatives that may be empty cost no more than others', async t => {
  const pattern = new KeyPattern(`${'{,}'.repeat(100)}z`)
  t.same([pattern.test('z'), pattern.test('zz')], [true, false])
})

t.test('a pattern of a single text is known as such, and the others by their prefix', async t => {
  t.match(new KeyPattern('web\\*1'), { text: 'web*1', prefix: 'web*1' })
  t.match(new KeyPattern('web-*'), { text: undefined, prefix: 'web-' })
  t.match(new KeyPattern('{a,b}'), { text: undefined, prefix: '' })
})

t.test('with several fields a bracket at the beginning is that of the JSON array', async t => {
  const pattern = new KeyPattern('["checkout",*]', true)
  t.ok(pattern.test('["checkout","eu-1"]'))
  t.ok(pattern.test('["checkout",null]'))
  t.notOk(pattern.test('["cart","eu-1"]'))
  t.equal(new KeyPattern('["a",null]', true).text, '["a",null]')
})

t.test('a pattern that cannot be used says why', async t => {
  for (const [source, message] of [
    ['', /must not be empty/],
    ['a'.repeat(1025), /longer than 1024/],
    ['a[bc', /a \[ without a \]; write \\\[/],
    ['a{b', /a \{ without a \}/],
    ['a\\', /ends with a backslash/],
    ['[b-a]', /cannot be used: .*out of order/],
  ] as const) {
    t.throws(() => new KeyPattern(source), message, source.slice(0, 20))
  }
})

t.test('patterns with stars and question marks agree with a simple matcher', async t => {
  const matches = (pattern: string, text: string): boolean => {
    if (pattern === '') return text === ''
    if (pattern[0] === '*') return matches(pattern.slice(1), text) || (text !== '' && matches(pattern, text.slice(1)))
    return text !== '' && (pattern[0] === '?' || pattern[0] === text[0]) && matches(pattern.slice(1), text.slice(1))
  }
  const random = seeded(3)
  const word = (letters: string, longest: number) =>
    Array.from({ length: Math.floor(random() * longest) }, () => letters[Math.floor(random() * letters.length)]).join(
      '',
    )
  let matched = 0
  for (let n = 0; n < 5000; n++) {
    const source = `${word('ab*?', 6)}${'ab*?'[n % 4]}`
    const text = word('ab', 9)
    const expected = matches(source, text)
    if (expected) matched++
    if (new KeyPattern(source).test(text) !== expected) t.fail(`${source} on ${text}`)
  }
  t.ok(matched > 500)
})

t.test('many patterns that differ in their end take little time, whatever the text', async t => {
  const patterns = Array.from({ length: 5000 }, (_, n) => new KeyPattern(`*a*-${n}`))
  const { user } = process.cpuUsage()
  for (const length of [10, 1000, 100_000])
    t.equal(patterns.filter(pattern => pattern.test(`${'a'.repeat(length)}-7`)).length, 1)
  t.ok(process.cpuUsage().user - user < 1e6)
})

t.test('no text takes long', async t => {
  const pattern = new KeyPattern(`${'*a'.repeat(200)}b`)
  const { user } = process.cpuUsage()
  t.notOk(pattern.test('a'.repeat(100_000)))
  t.ok(process.cpuUsage().user - user < 20e6)
})

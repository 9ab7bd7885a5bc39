import t from 'tap'
import { PathError, parseFieldPath, readFieldPath, type Segment, valueAt } from '../../../src/core/event/field-path.js'

t.test('paths, as they are written', async t => {
  const cases: readonly (readonly [text: string, segments: readonly Segment[]])[] = [
    ['.app', ['app']],
    ['.a.b', ['a', 'b']],
    ['.a.b.c.d', ['a', 'b', 'c', 'd']],
    ['."x-y"', ['x-y']],
    ['.x-y', ['x-y']],
    ['._a$@1', ['_a$@1']],
    ['.1', ['1']],
    ['.é.漢', ['é', '漢']],
    ['."a.b"', ['a.b']],
    ['.a."b c".d', ['a', 'b c', 'd']],
    ['.""', ['']],
    ['."\\"\\\\"', ['"\\']],
    ['."]["', ['][']],
    ['.list[0]', ['list', 0]],
    ['.list[12][3].a', ['list', 12, 3, 'a']],
    ['."x y"[0]', ['x y', 0]],
    ['.list[007]', ['list', 7]],
    ['.__proto__', ['__proto__']],
  ]
  for (const [text, segments] of cases) t.same(parseFieldPath(text), { text, segments }, text)
})

t.test('what is no path is told with its column', async t => {
  const cases: readonly (readonly [text: string, column: number, message: RegExp])[] = [
    ['', 1, /starts with a dot/],
    ['app', 1, /starts with a dot/],
    [' .app', 1, /starts with a dot/],
    ['.', 2, /expected a field name/],
    ['..a', 2, /expected a field name/],
    ['.a.', 4, /expected a field name/],
    ['.a..b', 4, /expected a field name/],
    ['.[0]', 2, /expected a field name/],
    ['.a[x]', 3, /expected an index/],
    ['.a[]', 3, /expected an index/],
    ['.a[-1]', 3, /expected an index/],
    ['.a[1', 3, /expected an index/],
    ['.a[1234567890]', 3, /expected an index/],
    ['."a', 2, /expected a field name/],
    ['.a b', 3, /unexpected " "/],
    ['.a/b', 3, /unexpected "\/"/],
    ['.a"b"', 3, /unexpected/],
    ['.a[0]b', 6, /unexpected "b"/],
  ]
  for (const [text, column, message] of cases) {
    try {
      parseFieldPath(text)
      t.fail(`${text} was taken`)
    } catch (error) {
      t.ok(error instanceof PathError, text)
      t.match(error, { message, column }, text)
    }
  }
})

t.test('a path inside other text', async t => {
  t.same(readFieldPath('if (.a[0]."b c" exists)', 4), {
    path: { text: '.a[0]."b c"', segments: ['a', 0, 'b c'] },
    end: 15,
  })
  t.same(readFieldPath('.a)', 0).end, 2)
  t.throws(() => readFieldPath('if (host)', 4), { column: 5 } as unknown as Error)
})

t.test('values, only of what JSON has', async t => {
  const value = JSON.parse(
    '{"a":{"b":[10,[20,{"c":null}]],"0":"zero"},"s":"text","__proto__":{"x":1},"n":null}',
  ) as unknown
  const cases: readonly (readonly [segments: readonly Segment[], expected: unknown])[] = [
    [[], value],
    [['a', 'b', 0], 10],
    [['a', 'b', 1, 1, 'c'], null],
    [['a', 'b', 2], undefined],
    [['a', 'b', '0'], undefined],
    [['a', 'b', 'length'], undefined],
    [['a', 0], undefined],
    [['a', '0'], 'zero'],
    [['s', 0], undefined],
    [['s', 'length'], undefined],
    [['n', 'x'], undefined],
    [['__proto__', 'x'], 1],
    [['constructor'], undefined],
    [['a', 'toString'], undefined],
    [['missing', 'x'], undefined],
  ]
  for (const [segments, expected] of cases) t.strictSame(valueAt(value, segments), expected, JSON.stringify(segments))
})

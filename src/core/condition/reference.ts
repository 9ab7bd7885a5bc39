import { FUNCTIONS } from './functions.js'
import { OPERATORS } from './operators.js'
import { PAIR_TESTS } from './pairs.js'

const AFTER = { nothing: '', value: " '…'", list: ' (…)' }

/** The section about conditions in the reference: Markdown, one item per block. */
export function conditionReference(): string[] {
  const rows = [...OPERATORS].map(([name, { takes, text }]) => `| \`${name}${AFTER[takes]}\` | ${text} |`)
  const functions = [...FUNCTIONS].map(([name, { text }]) => `| \`${name}(…)\` | ${text} |`)
  const withFields = [...PAIR_TESTS.keys()].map(name => `\`${name}\``).join(', ')
  return [
    "A condition is `if (<field> <operator> '<value>')`, as in `if (.host equal 'web-07')`. Inside the parentheses, comparisons are combined with `AND`, `OR` and `NOT`, in any case, and nested parentheses: `if (.level equal 'error' AND NOT (.app starts_with 'test-' OR .path exists))`. `NOT` binds strongest, then `AND`, then `OR`. [Conditions](../docs/conditions.md) has the grammar, and what each operator does with each kind of value.",
    'A value is enclosed in single or double quotes; `\\\'`, `\\"` and `\\\\` in it escape the character; any other backslash is literal. Numbers, `true` and `false` need no quotes. A list of values is in parentheses: `if (.status in (502, 503, 504))`.',
    ['| Operator | Holds for |', '| --- | --- |', ...rows].join('\n'),
    `Instead of a value, these take a field: ${withFields}. So \`if (.took_ms greater .limit_ms)\` compares two fields of the event.`,
    ['| Function | Gives |', '| --- | --- |', ...functions].join('\n'),
    "A function may stand in the place of a field: `if (length(.message) greater 1000 OR lower(.level) equal 'error')`. A missing field, and a value that the function does not apply to, give a missing field.",
    [
      '- Comparisons use the text of the value and are case-sensitive: strings as they are, numbers and booleans as JavaScript writes them (`500`, `1.5`, `true`). So `500` and `"500"` are both `equal \'500\'`.',
      "- A missing field, null, an object and an array have no text: no comparison holds for them, not even `not_equal`. `NOT .app equal 'a'` holds for all events except those whose app is a. `is_empty` requires a value, too: a missing field or null is not empty.",
      '- If the value is a number, the ordering operators compare numbers, and a field whose text is not a number does not match. Otherwise they compare texts, which orders ISO 8601 times correctly. Two fields are compared as numbers if both are numbers, and as texts if neither is.',
      '- Regular expressions are those of JavaScript with the flag `u`, and match anywhere in the text. The flags i, m and s are written in front: `(?i)error`. Matching takes time proportional to the length of the text. Therefore back-references (`\\1`) are refused, and so are patterns that become very large when their counted repeats are expanded.',
      "- `is_ip_in_cidr_range` takes one range, or several separated by commas: `'10.0.0.0/8, 2001:db8::/32'`. An IPv4 address written in IPv6 (`::ffff:10.0.0.1`) is in the ranges of both.",
    ].join('\n'),
  ]
}

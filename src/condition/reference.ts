import { OPERATORS } from './operators.js'

/** The section of the reference about conditions: Markdown, one item for each block. */
export function conditionReference(): string[] {
  const rows = [...OPERATORS].map(
    ([name, { takesValue, text }]) => `| \`${name}${takesValue ? " '…'" : ''}\` | ${text} |`,
  )
  return [
    "A condition is `if (<field> <operator> '<value>')`, as in `if (.host equal 'web-07')`. Inside the parentheses comparisons are joined with `AND`, `OR` and `NOT`, in any case, and parentheses of their own: `if (.level equal 'error' AND NOT (.app starts_with 'test-' OR .path exists))`. `NOT` binds strongest, then `AND`, then `OR`.",
    'A value stands in single or double quotes; `\\\'`, `\\"` and `\\\\` in it stand for the character itself, any other backslash is one. Numbers, `true` and `false` need no quotes.',
    ['| Operator | Holds for |', '| --- | --- |', ...rows].join('\n'),
    [
      '- Compared is the text of the value, case-sensitive: strings as they are, numbers and booleans as JavaScript writes them (`500`, `1.5`, `true`). So `500` and `"500"` are both `equal \'500\'`.',
      "- A missing field, null, an object and an array have no text: no comparison holds for them, `not_equal` neither. `NOT .app equal 'a'` holds for all events but those whose app is a. `is_empty` asks for a value too: neither a missing field nor null is empty.",
      '- The ordering operators compare numbers where the value is a number: a field whose text says none does not match. Where the value is none they compare texts, which puts ISO 8601 times in order.',
      '- Regular expressions are those of JavaScript with the flag `u`, and match anywhere in the text. Others of the flags i, m and s go in front: `(?i)error`. They are matched in a time that is proportional to the length of the text, so back-references (`\\1`) and patterns that are very large once their counted repeats are written out are refused.',
      "- `is_ip_in_cidr_range` takes one range, or several with commas: `'10.0.0.0/8, 2001:db8::/32'`. An IPv4 address written in IPv6 (`::ffff:10.0.0.1`) is in the ranges of both.",
    ].join('\n'),
  ]
}

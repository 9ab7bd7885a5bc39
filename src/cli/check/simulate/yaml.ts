/** Options that may hold a secret. */
const NOT_SHOWN = new Set(['redis'])

/** A throttle as a part of a configuration file, to paste. */
export function throttleYaml(
  id: string,
  inputs: readonly string[] | undefined,
  options: Readonly<Record<string, unknown>>,
): string {
  const lines = Object.entries(options).flatMap(([name, value]) => {
    if (value === undefined) return []
    return NOT_SHOWN.has(name) ? `    # ${name}: as before` : `    ${name}: ${scalar(value)}`
  })
  const from = inputs ? `[${inputs.join(', ')}]` : '[]  # the ids of the components whose events it limits'
  return [
    'processors:',
    `  ${id}:`,
    '    type: throttle',
    `    inputs: ${from}`,
    ...lines.filter(line => !/^ {4}(type|inputs):/.test(line)),
  ]
    .map(line => `${line}\n`)
    .join('')
}

/** A value in the flow style of YAML. */
function scalar(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(scalar).join(', ')}]`
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).filter(([, member]) => member !== undefined)
    return `{ ${entries.map(([name, member]) => `${scalar(name)}: ${scalar(member)}`).join(', ')} }`
  }
  return typeof value === 'string' && !isPlain(value) ? JSON.stringify(value) : String(value)
}

/** Whether a text needs no quotes, and is not read as something else. */
function isPlain(text: string): boolean {
  if (!/^[\w./][\w ./-]*$/.test(text) || text.endsWith(' ')) return false
  return Number.isNaN(Number(text)) && !/^(true|false|null|yes|no|on|off|\.inf|\.nan)$/i.test(text)
}

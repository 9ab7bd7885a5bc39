import { z } from 'zod'
import { statusDocument } from '../../../core/status-document.js'

/** The JSON Schema of the status document. */
export const statusSchema = (): string => `${JSON.stringify(z.toJSONSchema(statusDocument), null, 2)}\n`

/** Replaces the table of members in the page that describes the status document. */
export function withMembers(page: string): string {
  const rows: { readonly names: string[]; readonly text: string }[] = []
  for (const [name, { description }] of Object.entries(statusDocument.shape)) {
    if (description !== undefined) rows.push({ names: [], text: description })
    rows.at(-1)!.names.push(`\`${name}\``)
  }
  const lines = rows.map(({ names, text }) => `| ${names.join(', ')} | ${text} |`)
  return page.replace(/(\| member \| content \|\n\|---\|---\|\n)(\|.*\n)+/, (_, head) => `${head}${lines.join('\n')}\n`)
}

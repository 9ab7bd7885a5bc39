import { parseDocument } from 'yaml'

/** Changes values in the text of a configuration, by their paths. Undefined removes one. Comments and the order stay. */
export function editYaml(text: string, changes: Readonly<Record<string, unknown>>): string {
  const document = parseDocument(text)
  for (const [path, value] of Object.entries(changes)) {
    if (value === undefined) document.deleteIn(path.split('.'))
    else document.setIn(path.split('.'), document.createNode(value, { flow: true }))
  }
  return document.toString({ lineWidth: 0 })
}

/** The text that a configuration reads as `text`: where it has `${`, a variable would be put in. */
export const literalText = (text: string) => text.replaceAll('${', () => '$${')

/** Columns between tabs: names, each with its pattern behind `=`, or any text without one. */
export function tabbed(columns: string): string {
  return columns
    .split(' ')
    .map(column => {
      const [name, pattern = 'DATA'] = column.split('=')
      return `%{${pattern}:${name}}`
    })
    .join('\\t')
}

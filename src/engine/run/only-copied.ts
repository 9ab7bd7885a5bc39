import type { Config } from '../config/load.js'

/** Whether all that runs copies lines as they were read and looks at no field, so that lines need not be decoded. */
export function isOnlyCopied({ processors, destinations }: Pick<Config, 'processors' | 'destinations'>): boolean {
  return [...processors, ...destinations].every(({ definition, options, delivery }) => {
    const copies = definition.copiesLines?.(options) === true
    const fields = definition.usesFields?.(options) ?? []
    // Records of a disk buffer say what was decoded.
    return copies && fields.length === 0 && delivery?.buffer.type !== 'disk'
  })
}

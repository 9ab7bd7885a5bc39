import { z } from 'zod'
import { NearestName } from '../../lib/nearest.js'
import { refuse } from './options.js'
import { reaches } from './reach.js'

export const timeZone = reaches('nothing', z.string().meta({ examples: ['Europe/Berlin'] })).transform(
  (name, context): string => {
    try {
      return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone
    } catch {
      const nearest = new NearestName().find(name, ['UTC', ...Intl.supportedValuesOf('timeZone')])
      const hint = nearest === undefined ? ', as in Europe/Berlin' : `; did you mean "${nearest}"?`
      return refuse(context, `is not a time zone of this system${hint}`)
    }
  },
)

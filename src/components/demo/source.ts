import { defineSource } from '../../core/component.js'
import { demoSourceOptions } from './options.js'

export const demo = defineSource({
  type: 'demo',
  summary: 'Makes the logs of a few invented apps, to try Sluice without logs of your own.',
  notes:
    'All apps together make `rate` events per second. At any time one of them is noisy and makes 80 % of all events; every few seconds another app becomes the noisy one. The same options make the same sequence of events at each start, except for their timestamps. It runs until the daemon stops. Events that were due while the daemon was busy are not made later.\n\n' +
    'Events have `.timestamp`, `.app`, `.level`, `.message`, `.duration_ms`, and `.n`, which counts the events of each app.',
  options: demoSourceOptions,
  examples: [
    { title: 'Four apps; one at a time is noisy', yaml: 'rate: 100\n' },
    { title: 'Other apps, and another sequence', yaml: 'rate: 20\napps: [cart, search]\nseed: 7\n' },
  ],
  fields: () => ({ names: ['timestamp', 'app', 'level', 'message', 'duration_ms', 'n'] }),
  create: async (options, context) => new (await import('./demo-source.js')).DemoSource(options, context),
})

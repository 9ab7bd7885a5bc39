import { dividedWarnings } from '../../core/codecs/options.js'
import { defineSource } from '../../core/component.js'
import { fieldsOfLines } from '../../core/event/event-fields.js'
import { options } from './options.js'

export const tcp = defineSource({
  type: 'tcp',
  summary: 'Receives lines and syslog messages over TCP, with or without TLS.',
  notes:
    'TCP has no response that confirms the delivery of a message. Messages that were read and not delivered are lost if the process is killed, and so are messages in transit when a connection breaks. If that matters, use the http source or a file. Messages are read only as fast as they are passed on, so senders wait while a destination does. At the end of the run, connections are half-closed to notify senders. Messages in transit are still read, and so is what senders continue with for up to two seconds; all of it is delivered.\n\nEvents have `.peer`, the address of the sender, unless they are JSON objects. A counted message may have several lines: under `encoding: raw` it is written as it came.\n\nA message that is not finished when its connection ends is delivered as it is.',
  options,
  examples: [
    {
      title: 'Syslog from the network, over TLS',
      yaml: 'listen: 0.0.0.0:6514\ndecode: syslog\ntls: { cert_file: /etc/sluice/cert.pem, key_file: /etc/sluice/key.pem, client_ca_file: /etc/sluice/clients.pem }\n',
    },
    { title: 'JSON lines from programs on this machine', yaml: 'listen: 127.0.0.1:5170\ndecode: json\n' },
  ],
  warnings: dividedWarnings,
  fields: ({ decode }) => fieldsOfLines(decode, ['peer']),
  create: async (options, context) => new (await import('./tcp-source.js')).TcpSource(options, context),
})

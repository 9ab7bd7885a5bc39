import { dividedWarnings } from '../../core/codecs/options.js'
import { defineSource } from '../../core/component.js'
import { fieldsOfLines } from '../../core/event/event-fields.js'
import { tcpOptions } from './options.js'

export const tcp = defineSource({
  type: 'tcp',
  summary: 'Receives lines and syslog messages over TCP, with or without TLS.',
  notes:
    'TCP does not confirm that a message was delivered. A kill loses messages that were read and not delivered; a broken connection loses messages in transit. To prevent this, use the http source or a file. While a destination waits, the source does not read, so senders wait, too. When it stops, the source half-closes its connections to notify senders. It still reads and delivers messages in transit, and messages that are sent within the next two seconds.\n\nEvents have `.peer`, the address of the sender, unless they are JSON objects. A message with a length prefix may have several lines; `encoding: raw` writes them unchanged.\n\nIf a connection ends within a message, the received part is delivered. Empty messages are skipped.',
  promises: {
    guarantee: 'TCP does not confirm delivery: a kill loses messages that were not delivered.',
    order: 'Messages of a connection keep their order.',
    duplicates: 'A sender that connects again can repeat messages.',
    limits: '`max_line_bytes` (1 MiB) for a message; `max_connections` (1,000).',
    tested: 'rsyslog 8.2302, and `logger` of util-linux.',
  },
  options: tcpOptions,
  examples: [
    {
      title: 'Syslog from the network, over TLS',
      yaml: 'listen: 0.0.0.0:6514\ndecode: syslog\ntls: { cert_file: /etc/sluice/cert.pem, key_file: /etc/sluice/key.pem, client_ca_file: /etc/sluice/clients.pem }\n',
    },
    { title: 'JSON lines from programs on this machine', yaml: 'listen: 127.0.0.1:5170\ndecode: json\n' },
  ],
  checks: async () => ({ warnings: dividedWarnings }),
  fields: ({ decode }) => fieldsOfLines(decode, ['peer']),
  create: async (options, context) => new (await import('./tcp-source.js')).TcpSource(options, context),
})

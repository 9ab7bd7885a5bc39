// The health check of the image: the exit code is 0 if the daemon answers on the socket in its data_dir.
import { get } from 'node:http'

const socketPath = process.env.SLUICE_SOCKET ?? '/var/lib/sluice/sluice.sock'
get({ socketPath, path: '/healthz', timeout: 5000 }, answer => process.exit(answer.statusCode === 200 ? 0 : 1))
  .on('timeout', () => process.exit(1))
  .on('error', () => process.exit(1))

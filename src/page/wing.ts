/** The page of a daemon: the server, and the files for browsers. */
export { StatusPage } from './server/page.js'

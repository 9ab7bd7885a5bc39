import { join } from 'node:path'

/** Returns a configuration with these directives in `http`. nginx runs in the foreground, and keeps its files in `folder`. */
export function nginxConfig(folder: string, http: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    name => `${name}_temp_path ${folder}/${name};`,
  )
  return `daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log;
${process.getuid?.() === 0 ? 'user root;' : ''}
events {}
http {
  access_log off;
  ${temporary.join(' ')}
${http}
}
`
}

/** The arguments of nginx for this file. Without `-e`, it would write to the log of the machine before it has read the file. */
export function nginxArgs(file: string, folder: string): string[] {
  return ['-e', join(folder, 'error.log'), '-c', file, '-p', folder]
}
